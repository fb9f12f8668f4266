"""From the log of a benchmark to its figures."""

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from statistics import fmean

import torch
from jaxtyping import Float
from torch import Tensor

from eval.bench import REFERENCE, Bench, ImageSet
from eval.columns import CONDITIONAL, NLL, column, ordered
from eval.frechet import frechet_distance
from eval.judge import can_judge, features_of, real_features
from eval.latency.figures import Latency
from eval.paired import paired_delta, stratified_interval
from eval.results import DecoderResult, Frechet, Ladder, Quality, Rung, Score
from eval.samples import Key, Sample, Scores
from eval.statistics import Interval, Spread, by_prompt, ratio_interval, spread

FORWARD_PHASES = ("prefill", "forward")


def summarise(
    bench: Bench, options: Mapping[str, Mapping[str, object]], latency: Latency | None = None
) -> tuple[list[DecoderResult], Quality | None]:
    """The figures of every decoder, and of the baseline's second-seed set (the control)."""
    qualities = _qualities(bench) if bench.plan.quality_images else {}
    decoders = [
        _decoder_result(bench, name, options[name], qualities.get((name, "main")), latency)
        for name in bench.decoders
    ]
    return decoders, qualities.get(bench.control)


def timed_sessions(bench: Bench) -> int:
    """Over how many starts of the benchmark the timed images spread."""
    return len({image.session for name in bench.decoders for image in _timed(bench, name)})


def ladder(bench: Bench, loop: str) -> Ladder | None:
    """The reference loop, our autoregression and our decoders on the prompts that all were timed on."""
    count = bench.references
    if count == 0:
        return None
    slow = bench.images((REFERENCE, "reference"), count)
    base = bench.images((bench.baseline, "main"), count)
    others = {name: bench.images((name, "main"), count) for name in bench.decoders if name != bench.baseline}
    return Ladder(
        loop=loop,
        images=count,
        reference=_spread(slow),
        baseline=_spread(base),
        loop_gain=_speedup(slow, base),
        rungs=[
            Rung(
                name=name,
                latency=_spread(images),
                speculation=_speedup(base, images),
                total=_speedup(slow, images),
            )
            for name, images in others.items()
        ],
    )


def _timed(bench: Bench, name: str) -> list[Sample]:
    return bench.images((name, "main"), bench.plan.images)


def _decoder_result(
    bench: Bench,
    name: str,
    options: Mapping[str, object],
    quality: Quality | None,
    latency: Latency | None,
) -> DecoderResult:
    timed, baseline = _timed(bench, name), _timed(bench, bench.baseline)
    logged = [image for image in bench.log.images.values() if (image.decoder, image.role) == (name, "main")]
    profiled = [
        image for image in bench.log.images.values() if (image.decoder, image.role) == (name, "profile")
    ]
    forwards = fmean(image.forwards for image in timed)
    told = latency if bench.backbone.device.type != "cpu" else None
    phases = _swept_phases(timed, name, told) or _phases(profiled or timed)
    return DecoderResult(
        name=name,
        lossless=bench.decoders[name].lossless,
        options=options,
        forwards=forwards,
        step_compression=fmean(image.forwards for image in baseline) / forwards,
        latency=_spread(timed),
        speedup=_speedup(baseline, timed),
        seconds=phases,
        engine_ratio=phases["total"] / sum(phases[phase] for phase in FORWARD_PHASES),
        acceptance=_acceptance(logged),
        changed=_changed(logged),
        quality=quality,
    )


def _phases(images: list[Sample]) -> dict[str, float]:
    return {phase: fmean(image.seconds[phase] for image in images) for phase in images[0].seconds}


def _swept_phases(timed: list[Sample], name: str, latency: Latency | None) -> dict[str, float] | None:
    """On an accelerator the timed images do not know their phases: the sweep's shares of their seconds."""
    cell = None if latency is None else latency.cell(name, 1)
    if cell is None:
        return None
    total = fmean(image.seconds["total"] for image in timed)
    return {**{phase: share * total for phase, share in cell.phases.items()}, "total": total}


def _latency(image: Sample) -> float:
    assert image.latency is not None
    return image.latency


def _spread(images: Sequence[Sample]) -> Spread:
    return spread([_latency(image) for image in images])


def _speedup(baseline: Sequence[Sample], timed: Sequence[Sample]) -> Interval:
    """Paired by prompt; images of one prompt count once, by the geometric mean of their latencies."""
    slow, fast = (
        by_prompt((image.prompt, math.log(_latency(image))) for image in images)
        for images in (baseline, timed)
    )
    return ratio_interval(
        [math.exp(value) for value in slow.values()], [math.exp(fast[prompt]) for prompt in slow]
    )


def _acceptance(images: list[Sample]) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    for image in images:
        for label, (accepted, examined) in image.acceptance.items():
            before = counts.get(label, (0, 0))
            counts[label] = before[0] + accepted, before[1] + examined
    return counts


def _changed(images: list[Sample]) -> list[float]:
    examined = [sum(counts) for counts in zip_longest(*(image.examined for image in images), fillvalue=0)]
    changed = [sum(counts) for counts in zip_longest(*(image.changed for image in images), fillvalue=0)]
    return [here / judged if judged else 0.0 for here, judged in zip(changed, examined, strict=True)]


def _qualities(bench: Bench) -> dict[ImageSet, Quality]:
    features: dict[ImageSet, Float[Tensor, "N F"]] = {}
    real = None
    if can_judge(bench.backbone.name):
        real = real_features(bench.backbone)
        for chosen in bench.quality_sets:
            images = bench.images(chosen, bench.plan.quality_images)
            tokens = torch.tensor([image.tokens for image in images])
            features[chosen] = features_of(bench.backbone, tokens)
    return {chosen: _quality(bench, chosen, features, real) for chosen in bench.quality_sets}


def _quality(
    bench: Bench,
    chosen: ImageSet,
    features: Mapping[ImageSet, Float[Tensor, "N F"]],
    real: Float[Tensor, "M F"] | None,
) -> Quality:
    count = bench.plan.quality_images
    own, base = bench.images(chosen, count), bench.images((bench.baseline, "main"), count)
    names = {name for image in own for name in bench.log.scores[image.key]}
    scores = {name: score(own, base, bench.log.scores, name) for name in ordered(names)}
    nll, plain = scores.pop(NLL), scores.pop(CONDITIONAL)
    reference = None if chosen == bench.control else features.get(bench.control)
    return Quality(
        images=len(own),
        nll=nll.value,
        nll_conditional=plain.value,
        nll_delta=nll.delta,
        frechet_ar=_frechet(reference, features.get(chosen)),
        frechet_real=_frechet(real, features.get(chosen)),
        scores=scores,
    )


def score(own: Sequence[Sample], base: Sequence[Sample], scores: Mapping[Key, Scores], name: str) -> Score:
    """A column of one set, and its differences from another's images of the same prompts.

    Args:
        own: the images.
        base: those that they are compared with.
        scores: of both, by image.
        name: the column; images without it are left out.
    """
    known = column(name)
    here, there = (
        by_prompt((image.prompt, found[name]) for image in images if name in (found := scores[image.key]))
        for images in (own, base)
    )
    strata = {image.prompt: f"{image.set}/{image.category}" for image in own}
    shared = [prompt for prompt in here if prompt in there]
    return Score(
        value=stratified_interval(
            list(here.values()), [strata[prompt] for prompt in here], balanced=known.balanced
        ),
        delta=paired_delta(
            [here[prompt] - there[prompt] for prompt in shared],
            [strata[prompt] for prompt in shared],
            known.margin,
            balanced=known.balanced,
        ),
    )


def _frechet(reference: Float[Tensor, "M F"] | None, features: Float[Tensor, "N F"] | None) -> Frechet | None:
    """Both sets are cut to the smaller one's size, since the distance depends on it."""
    if reference is None or features is None:
        return None
    n = min(len(reference), len(features))
    return Frechet(value=frechet_distance(reference[:n], features[:n]), n=n)
