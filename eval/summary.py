"""From the log of a benchmark to its figures."""

import math
from collections.abc import Mapping
from itertools import zip_longest
from statistics import fmean

import torch
from jaxtyping import Float
from torch import Tensor

from backbones.contract import Grid
from eval.frechet import frechet_distance
from eval.judge import Judgement, can_judge, judge, real_features
from eval.passes import Bench, ImageSet
from eval.results import ChangedRound, DecoderResult, Frechet, Quality
from eval.samples import Likelihood, Sample
from eval.statistics import Interval, by_prompt, mean_interval, proportion, ratio_interval, spread

FORWARD_PHASES = ("prefill", "forward")


def summarise(
    bench: Bench, options: Mapping[str, Mapping[str, object]]
) -> tuple[list[DecoderResult], Quality | None]:
    """The figures of every decoder, and of the baseline's second-seed set (the control)."""
    qualities = _qualities(bench) if bench.plan.quality_images else {}
    decoders = [
        _decoder_result(bench, name, options[name], qualities.get((name, "main"))) for name in bench.decoders
    ]
    return decoders, qualities.get(bench.control)


def timed_sessions(bench: Bench) -> int:
    """Over how many starts of the benchmark the timed images spread."""
    return len({image.session for name in bench.decoders for image in _timed(bench, name)})


def _timed(bench: Bench, name: str) -> list[Sample]:
    return bench.images((name, "main"), bench.plan.images)


def _decoder_result(
    bench: Bench, name: str, options: Mapping[str, object], quality: Quality | None
) -> DecoderResult:
    timed, baseline = _timed(bench, name), _timed(bench, bench.baseline)
    logged = [image for image in bench.log.images.values() if (image.decoder, image.role) == (name, "main")]
    profiled = [
        image for image in bench.log.images.values() if (image.decoder, image.role) == (name, "profile")
    ]
    forwards = fmean(image.forwards for image in timed)
    phases = _phases(profiled or timed)
    return DecoderResult(
        name=name,
        lossless=bench.decoders[name].lossless,
        options=options,
        forwards=forwards,
        step_compression=fmean(image.forwards for image in baseline) / forwards,
        latency=spread([_latency(image) for image in timed]),
        speedup=_speedup(baseline, timed),
        seconds=phases,
        engine_ratio=phases["total"] / sum(phases[phase] for phase in FORWARD_PHASES),
        acceptance=_acceptance(logged),
        changed=_changed(logged, bench.backbone.grid),
        quality=quality,
    )


def _phases(images: list[Sample]) -> dict[str, float]:
    return {phase: fmean(image.seconds[phase] for image in images) for phase in images[0].seconds}


def _latency(image: Sample) -> float:
    assert image.latency is not None
    return image.latency


def _speedup(baseline: list[Sample], timed: list[Sample]) -> Interval:
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


def _changed(images: list[Sample], grid: Grid) -> list[ChangedRound]:
    examined = [sum(counts) for counts in zip_longest(*(image.examined for image in images), fillvalue=0)]
    maps = torch.zeros(len(examined), grid.size)
    for image in images:
        for index, positions in enumerate(image.changed):
            maps[index, positions] += 1
    return [
        ChangedRound(
            fraction=float(cells.sum()) / judged if judged else 0.0,
            map=(cells / len(images)).reshape(grid.rows, grid.cols).tolist(),
        )
        for cells, judged in zip(maps, examined, strict=True)
    ]


def _qualities(bench: Bench) -> dict[ImageSet, Quality]:
    count = bench.plan.quality_images
    judged: dict[ImageSet, Judgement] = {}
    real = None
    if can_judge(bench.backbone.name):
        real = real_features(bench.backbone)
        for chosen in bench.quality_sets:
            images = bench.images(chosen, count)
            tokens = torch.tensor([image.tokens for image in images])
            judged[chosen] = judge(bench.backbone, [image.prompt for image in images], tokens)
    return {chosen: _quality(bench, chosen, judged, real) for chosen in bench.quality_sets}


def _quality(
    bench: Bench,
    chosen: ImageSet,
    judged: Mapping[ImageSet, Judgement],
    real: Float[Tensor, "M F"] | None,
) -> Quality:
    scores = _scores(bench, chosen)
    nll = by_prompt((prompt, score.guided) for prompt, score in scores)
    plain = by_prompt((prompt, score.conditional) for prompt, score in scores)
    base = by_prompt((prompt, score.guided) for prompt, score in _scores(bench, (bench.baseline, "main")))
    verdict = judged.get(chosen)
    reference = None if chosen == bench.control else judged.get(bench.control)
    return Quality(
        images=len(scores),
        nll=mean_interval(list(nll.values())),
        nll_conditional=mean_interval(list(plain.values())),
        nll_delta=mean_interval([value - base[prompt] for prompt, value in nll.items()]),
        frechet_ar=_frechet(reference.features if reference else None, verdict),
        frechet_real=_frechet(real, verdict),
        garment=None if verdict is None else _share(verdict.garment),
        colour=None if verdict is None else _share(verdict.colour),
        background=None if verdict is None else _share(verdict.background),
    )


def _scores(bench: Bench, chosen: ImageSet) -> list[tuple[str, Likelihood]]:
    keys = bench.keys(chosen, bench.plan.quality_images)
    return [(key[1], bench.log.likelihoods[key]) for key in keys]


def _frechet(reference: Float[Tensor, "M F"] | None, verdict: Judgement | None) -> Frechet | None:
    """Both sets are cut to the smaller one's size, since the distance depends on it."""
    if reference is None or verdict is None:
        return None
    n = min(len(reference), len(verdict.features))
    return Frechet(value=frechet_distance(reference[:n], verdict.features[:n]), n=n)


def _share(right: list[bool]) -> Interval:
    return proportion(sum(right), len(right))
