"""The passes of a benchmark: time images alone, paint the rest in batches, score their likelihood.

Each pass asks the log what is missing and does that alone, so a killed benchmark goes on where it was.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from tqdm import tqdm

from backbones.contract import Backbone, Sampling
from decoding.engine import generate
from decoding.generation import Generation
from decoding.methods.method import Method
from decoding.noise import Noise
from eval.likelihood import likelihoods
from eval.samples import Key, Role, Sample, SampleLog

ImageSet = tuple[str, Role]
"""Decoder and role."""

PROFILED = 3
"""Images per decoder that the profile pass paints."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much a benchmark paints."""

    images: int = 24
    """Images per decoder that are painted alone and timed."""
    quality_images: int = 128
    """Images per decoder whose quality is judged; the timed ones are the first of them. 0 leaves it out."""
    warm_up: int = 2
    """Images per decoder that are painted before the clock counts."""
    seed: int = 1000
    """Of every image's noise; the control set takes the next seed."""
    quality_batch: int = 16
    """Images painted together where nothing is timed."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What every pass works on."""

    backbone: Backbone
    decoders: Mapping[str, Method]
    baseline: str
    """The name of the plain autoregressive decoder."""
    sampling: Sampling
    plan: Plan
    items: Sequence[tuple[str, int]]
    """(prompt, which image of it), in the order in which they are taken."""
    log: SampleLog
    session: int
    """Which start of the benchmark this is."""

    @property
    def quality_sets(self) -> list[ImageSet]:
        """Every decoder's images, and the baseline's with the second seed."""
        return [*((name, "main") for name in self.decoders), self.control]

    @property
    def control(self) -> ImageSet:
        """The baseline's images with the second seed."""
        return self.baseline, "control"

    def keys(self, chosen: ImageSet, count: int) -> list[Key]:
        """The names of the first `count` images of a set."""
        decoder, role = chosen
        return [(decoder, prompt, sample, role) for prompt, sample in self.items[:count]]

    def images(self, chosen: ImageSet, count: int) -> list[Sample]:
        """The first `count` images of a set."""
        return [self.log.images[key] for key in self.keys(chosen, count)]


def speed_pass(bench: Bench) -> None:
    """Times images one by one, the decoders taking turns at every prompt so that drift hits all alike."""
    log, names = bench.log, list(bench.decoders)
    todo = []
    for index, (prompt, sample) in enumerate(bench.items[: bench.plan.images]):
        turn = index % len(names)
        for name in names[turn:] + names[:turn]:
            known = log.images.get((name, prompt, sample, "main"))
            if known is None or known.latency is None:
                todo.append((name, prompt, sample, "main"))
    if not todo:
        return
    with tqdm(
        total=bench.plan.warm_up * len(names) + len(todo), desc="speed", unit="image", dynamic_ncols=True
    ) as bar:
        for index in range(bench.plan.warm_up):
            prompt, sample = bench.items[index % len(bench.items)]
            for name in names:
                _paint(bench, [(name, prompt, sample, "main")], timed=True)
                bar.update()
        for key in todo:
            log.add(_paint(bench, [key], timed=True))
            bar.update()


def profile_pass(bench: Bench) -> None:
    """Paints a few images again with waits between the phases, which an accelerator needs to time them.

    Kept apart from the speed pass, since the waits slow decoding down. A CPU works in step with the clock:
    there the timed images themselves tell.
    """
    keys = [key for name in bench.decoders for key in bench.keys((name, "profile"), PROFILED)]
    for key in keys:
        if key not in bench.log.images:
            bench.log.add(_paint(bench, [key], timed=False))


def quality_pass(bench: Bench) -> None:
    """Paints, in batches, the images of every quality set that the speed pass has not painted."""
    missing = [
        [key for key in bench.keys(chosen, bench.plan.quality_images) if key not in bench.log.images]
        for chosen in bench.quality_sets
    ]
    if not any(missing):
        return
    with tqdm(total=sum(map(len, missing)), desc="quality", unit="image", dynamic_ncols=True) as bar:
        for (decoder, _), keys in zip(bench.quality_sets, missing, strict=True):
            together = bench.plan.quality_batch if bench.decoders[decoder].lockstep else 1
            for batch in _batches(keys, together):
                bench.log.add(_paint(bench, batch, timed=False))
                bar.update(len(batch))


def score_pass(bench: Bench) -> None:
    """Scores the likelihood of every image of the quality sets."""
    count = bench.plan.quality_images
    every = [key for chosen in bench.quality_sets for key in bench.keys(chosen, count)]
    missing = [key for key in every if key not in bench.log.likelihoods]
    if not missing:
        return
    with tqdm(total=len(missing), desc="likelihood", unit="image", dynamic_ncols=True) as bar:
        for batch in _batches(missing, bench.plan.quality_batch):
            tokens = torch.tensor([bench.log.images[key].tokens for key in batch])
            scores = likelihoods(bench.backbone, [key[1] for key in batch], tokens, bench.sampling)
            bench.log.score(dict(zip(batch, scores, strict=True)))
            bar.update(len(batch))


def _batches(keys: Sequence[Key], size: int) -> list[Sequence[Key]]:
    return [keys[start : start + size] for start in range(0, len(keys), size)]


def _paint(bench: Bench, keys: Sequence[Key], timed: bool) -> list[Sample]:
    """Paints images of one set together."""
    decoder, _, _, role = keys[0]
    prompts = [prompt for _, prompt, _, _ in keys]
    seed = bench.plan.seed + (role == "control")
    noise = Noise(seed, prompts, [sample for _, _, sample, _ in keys])
    method, waits = bench.decoders[decoder], role == "profile"
    _synchronise(bench.backbone)
    start = time.perf_counter()
    made = generate(bench.backbone, prompts, method, noise, bench.sampling, synchronize=waits)
    _synchronise(bench.backbone)
    latency = time.perf_counter() - start if timed else None
    return [
        Sample(
            decoder=decoder,
            prompt=prompt,
            sample=sample,
            role=role,
            session=bench.session,
            latency=latency,
            tokens=made.tokens[row].tolist(),
            forwards=made.trace.forwards,
            seconds=dict(made.trace.seconds),
            acceptance=_acceptance(made, row),
            examined=[len(positions) for positions in _by_round(made, row, changed_only=False)],
            changed=_by_round(made, row, changed_only=True),
        )
        for row, (_, prompt, sample, _) in enumerate(keys)
    ]


def _acceptance(made: Generation, row: int) -> dict[str, list[int]]:
    """(accepted, examined) of one image's drafts in their first round, by the head that made them."""
    counts: dict[str, list[int]] = {}
    for judged in made.trace.rounds:
        if judged.index == 0:
            for label, accepted in zip(judged.offsets, judged.accepted[row].tolist(), strict=True):
                count = counts.setdefault(label, [0, 0])
                count[0] += accepted
                count[1] += 1
    return counts


def _by_round(made: Generation, row: int, changed_only: bool) -> list[list[int]]:
    """Raster positions of one image that were judged (or changed) in each round."""
    rounds: list[list[int]] = []
    for judged in made.trace.rounds:
        while len(rounds) <= judged.index:
            rounds.append([])
        positions = judged.positions.tolist()
        if changed_only:
            flags = judged.changed[row].tolist()
            positions = [position for position, changed in zip(positions, flags, strict=True) if changed]
        rounds[judged.index] += positions
    return rounds


def _synchronise(backbone: Backbone) -> None:
    if backbone.device.type == "cuda":
        torch.cuda.synchronize(backbone.device)
