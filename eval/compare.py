"""Two benchmarks of one generator against each other, on the prompts and seeds that they share.

    python -m eval compare before=outputs/main/eval after=outputs/pocket/eval

A regression is proved, not suspected: the difference is worse than its margin at 5 %, after Holm's
correction for the number of tests. Seconds are shown where both ran on one kind of machine, and never count:
they compare within one run alone.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from backbones.errors import RowcastError
from eval.columns import Column, column, ordered
from eval.paired import LEVEL, Delta, exceeds, groups_of, holm, paired_delta, stratified_means, weights_of
from eval.rendering import read_log
from eval.results import Results, read_results
from eval.samples import Key, Sample, Scores
from eval.statistics import DRAWS, by_prompt

FORWARDS = Column(
    name="forwards", title="forwards", higher_is_better=False, margin=None, form="{:.1f}", ratio=True
)
LATENCY = Column(
    name="latency", title="latency ms", higher_is_better=False, margin=None, form="{:.0f}", ratio=True
)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One figure of one decoder, before and after."""

    decoder: str
    figure: Column
    before: float
    after: float
    delta: Delta
    """After minus before."""
    p_worse: float | None
    """Of "not worse by more than the margin"; none where the figure does not count."""

    @property
    def regression(self) -> bool:
        return self.p_worse is not None and self.p_worse < LEVEL

    @property
    def text(self) -> str:
        """What is proved."""
        if self.p_worse is None:
            return "shown only"
        if self.regression:
            return "REGRESSION"
        if self.delta.equivalent:
            return "same"
        low, high = self.delta.low, self.delta.high
        if low is None or high is None or low <= 0 <= high:
            return "undecided"
        better = (self.delta.value > 0) == self.figure.higher_is_better
        return "better" if better else "worse, not beyond the margin"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All tests of two benchmarks."""

    verdicts: list[Verdict]
    images: int
    """That both have."""
    alone: list[str]
    """Decoders that one of them lacks."""

    @property
    def regressions(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.regression]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one benchmark left."""

    results: Results
    images: Mapping[Key, Sample]
    scores: Mapping[Key, Scores]


Pick = Callable[[Run, Key], float | None]
"""A figure of one image; none where it has none."""


def compare(before: Path, after: Path, forwards_margin: float = 0.02) -> Comparison:
    """Tests every decoder that two benchmarks share.

    Args:
        before: folder of the older one.
        after: folder of the newer one.
        forwards_margin: share of forwards that does not count.

    Raises:
        RowcastError: if a folder holds no benchmark, or the two are not of one law, or share no image.
    """
    old, new = _read(before), _read(after)
    _require_alike(old.results, new.results)
    names, others = ([decoder.name for decoder in run.results.decoders] for run in (old, new))
    verdicts: list[Verdict] = []
    images = 0
    for name in names:
        keys = [key for key in old.images if key[::3] == (name, "main") and key in new.images]
        images += len(keys)
        verdicts += _verdicts(name, keys, old, new, forwards_margin)
    if not verdicts:
        raise RowcastError(
            f"expected images that {before} and {after} share, found none: give both the same decoders, "
            "prompts and seed"
        )
    return Comparison(verdicts=_corrected(verdicts), images=images, alone=sorted(set(names) ^ set(others)))


def _read(folder: Path) -> Run:
    results = read_results(folder)
    images, scores = read_log(results, folder)
    return Run(results=results, images=images, scores=scores)


def _require_alike(old: Results, new: Results) -> None:
    """Sampling moves forwards and quality more than decoders do: unequal runs are refused."""
    wanted = {
        "backbone": (old.subject.fingerprint, new.subject.fingerprint),
        "sampling": (asdict(old.sampling), asdict(new.sampling)),
        "benchmark.seed": (old.plan.seed, new.plan.seed),
        "model.dtype": (old.environment.dtype, new.environment.dtype),
    }
    for what, (one, other) in wanted.items():
        if one != other:
            raise RowcastError(
                f"expected two benchmarks of the same {what}, found {one} and {other}: measure one of them "
                "again with the other's"
            )


def _verdicts(name: str, keys: Sequence[Key], old: Run, new: Run, forwards_margin: float) -> list[Verdict]:
    forwards = replace(FORWARDS, margin=math.log1p(forwards_margin))
    figures: list[tuple[Column, Pick]] = [
        (forwards, lambda run, key: math.log(run.images[key].forwards)),
        (LATENCY, _log_milliseconds),
        *(
            (column(score), _score(score))
            for score in ordered({score for key in keys for score in old.scores.get(key, {})})
        ),
    ]
    found = []
    for figure, pick in figures:
        if figure == LATENCY and not _same_machine(old.results, new.results):
            continue
        shared = [key for key in keys if pick(old, key) is not None and pick(new, key) is not None]
        if shared:
            found.append(_verdict(name, figure, pick, shared, (old, new)))
    return found


def _score(name: str) -> Pick:
    return lambda run, key: run.scores.get(key, {}).get(name)


def _log_milliseconds(run: Run, key: Key) -> float | None:
    latency = run.images[key].latency
    return None if latency is None else math.log(1000 * latency)


def _same_machine(old: Results, new: Results) -> bool:
    facts = ("device", "threads", "tf32")
    return all(getattr(old.environment, fact) == getattr(new.environment, fact) for fact in facts)


def _verdict(decoder: str, figure: Column, pick: Pick, keys: Sequence[Key], runs: tuple[Run, Run]) -> Verdict:
    here, there = (
        by_prompt((key[1], value) for key in keys if (value := pick(run, key)) is not None) for run in runs
    )
    images = runs[0].images
    strata = {key[1]: f"{images[key].set}/{images[key].category}" for key in keys}
    labels, differences = (
        [strata[prompt] for prompt in here],
        [there[prompt] - here[prompt] for prompt in here],
    )
    weights = weights_of(groups_of(labels), figure.balanced)
    return Verdict(
        decoder=decoder,
        figure=figure,
        before=float(weights @ np.asarray(list(here.values()))),
        after=float(weights @ np.asarray([there[prompt] for prompt in here])),
        delta=paired_delta(differences, labels, figure.margin, balanced=figure.balanced),
        p_worse=None if figure == LATENCY else worse(differences, labels, figure),
    )


def worse(differences: Sequence[float], strata: Sequence[str], figure: Column) -> float:
    """The p-value of "not worse by more than the margin", by a bootstrap within strata; 1 for one prompt."""
    if len(differences) < 2:
        return 1.0
    groups = groups_of(strata)
    weights = weights_of(groups, figure.balanced)
    means = stratified_means(np.asarray(differences, np.float64), groups, weights, DRAWS, 0)
    margin = figure.margin or 0.0
    if figure.higher_is_better:
        return exceeds(means, -margin, above=True)
    return exceeds(means, margin, above=False)


def _corrected(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """With p-values for all tests that count together."""
    counted = iter(holm([verdict.p_worse for verdict in verdicts if verdict.p_worse is not None]))
    return [
        verdict if verdict.p_worse is None else replace(verdict, p_worse=next(counted))
        for verdict in verdicts
    ]
