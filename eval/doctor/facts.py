"""What the bundle records of its training, held against what is loaded now."""

from dataclasses import asdict, replace

from backbones.proof import Proof
from checkpoints.config import BackboneFacts
from checkpoints.golden import drift, golden
from decoding.engine import generate
from decoding.noise import Noise
from eval.doctor.case import Case

WORSE = 0.7
"""Share of the recorded acceptance below which heads have a cause to be found."""


def dtype(case: Case) -> Proof:
    """The dtype of the states that the heads were trained on."""
    trained, live = case.config.backbone.dtype, BackboneFacts.of(case.backbone).dtype
    return Proof(
        expected=f"a backbone in {trained}, as in training",
        found=live,
        ok=trained == live,
        advice=f"pass model.dtype={trained}",
    )


def guidance(case: Case) -> Proof:
    """The guidance of training."""
    trained, live = case.config.sampling.guidance, case.sampling.guidance
    return Proof(
        expected=f"guidance {trained:g}, as in training",
        found=f"guidance {live:g}",
        ok=trained == live,
        advice=f"pass sampling.guidance={trained:g}, or train with the new one: it changes every law",
    )


def sampling(case: Case) -> Proof:
    """Temperature and cuts of the training images."""
    trained, live = (asdict(replace(one, guidance=1.0)) for one in (case.config.sampling, case.sampling))
    differing = [name for name in trained if trained[name] != live[name]]
    return Proof(
        expected=", ".join(f"{name} {trained[name]}" for name in trained if name != "guidance"),
        found=", ".join(f"{name} {live[name]}" for name in trained if name != "guidance"),
        ok=not differing,
        advice="pass " + " ".join(f"sampling.{name}={_word(trained[name])}" for name in differing)
        + ", or make rollouts under the new sampling and train on them",
    )  # fmt: skip


def fingerprint(case: Case) -> Proof:
    """The very weights and settings of the backbone that the heads were trained for."""
    trained, live = case.config.backbone, BackboneFacts.of(case.backbone)
    differing = trained.differences(live)
    return Proof(
        expected=f"{trained.name} {trained.fingerprint[:16]}"
        + ("" if trained.source is None else f" from {trained.source}"),
        found=f"{live.name} {live.fingerprint[:16]}"
        + (f" ({', '.join(differing)} differ)" if differing else ""),
        ok=not differing,
        advice="load the weights that the heads were trained for (path, revision), or train heads for these",
    )


def library(case: Case) -> Proof:
    """The logits that the backbone had in training."""
    recorded, now = case.config.golden, golden(case.backbone, case.rollouts[0].prompt)
    expected = "the logits that the backbone had in training"
    if recorded is None:
        return Proof(expected=expected, found="a bundle that records none", ok=None)
    error, tolerance = drift(recorded, case.backbone)
    return Proof(
        expected=f"{expected}, by {recorded.versions}, within {tolerance:.1%} of their spread",
        found=f"{100 * error:.2g}% off, by {now.versions}",
        ok=error <= tolerance,
        advice=f"install the versions of training: pip install torch=={recorded.torch.partition('+')[0]} "
        f"transformers=={recorded.transformers}; and run python -m backbones check",
    )


def acceptance(case: Case) -> Proof:
    """What real decoding accepts, beside what it accepted at the end of training."""
    if case.painter is None:
        return Proof(expected="accepted drafts", found=case.not_asked, ok=None)
    kept, examined = 0, 0
    for rollout in case.rollouts:
        noise = Noise(case.seed, [rollout.prompt], [rollout.sample])
        trace = generate(case.backbone, [rollout.prompt], case.painter, noise, case.sampling).trace
        for accepted, of in trace.acceptance().values():
            kept, examined = kept + accepted, examined + of
    found = f"{case.painter_name} accepts {kept / max(1, examined):.2f} of {examined} fresh drafts"
    prefix = f"{case.painter_name}/accepted/"
    recorded = [value for name, value in case.config.metrics.items() if name.startswith(prefix)]
    numbers = [float(value) for value in recorded if isinstance(value, int | float)]
    if not numbers:
        return Proof(expected="the acceptance of training", found=f"{found}; none recorded", ok=None)
    least = WORSE * min(numbers)
    return Proof(
        expected=f"at least {least:.2f}, {WORSE:.0%} of the least that a head had after training",
        found=found,
        ok=kept >= least * examined,
        advice="none of the known causes: these prompts are unlike those of training; train on such prompts, "
        "on more images (rollouts.images) or longer (trainer.steps)",
    )


def _word(value: object) -> str:
    return "null" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
