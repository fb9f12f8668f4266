"""Differences paired by prompt: what they are, what could have been seen, and whether they are small.

The unit that is resampled is the prompt, within its stratum (GenEval's tag, a prompt set's category), since
strata differ far more than decoders do. "Not significant" is no evidence of "equal": that takes a margin,
stated before, and two one-sided tests against it (TOST).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Float, Int

from eval.statistics import DRAWS, Interval, proportion

LEVEL = 0.05
POWER = 0.8
Group = Int[np.ndarray, " _"]
"""Places of a stratum's members."""

_CELLS = 4_000_000
"""Resampled values held at once."""


@dataclass(frozen=True, kw_only=True)
class Delta(Interval):
    """A mean paired difference with its 95 % interval, and what it can tell."""

    detectable: float | None
    """The true difference that such a comparison finds with 80 % power (two-sided, 5 %)."""
    margin: float | None
    """Differences below it count as none; none where no margin is agreed on."""
    equivalent: bool | None
    """Whether both one-sided tests at 5 % place the difference inside the margin; false is no proof of the
    contrary."""


def paired_delta(
    differences: Sequence[float],
    strata: Sequence[str],
    margin: float | None = None,
    *,
    balanced: bool = False,
    draws: int = DRAWS,
    seed: int = 0,
) -> Delta:
    """The mean of paired differences by a bootstrap within strata.

    Args:
        differences: one a prompt.
        strata: the stratum of each.
        margin: of the equivalence test, in the unit of the differences.
        balanced: whether every stratum counts alike (GenEval's overall score), not every prompt.
        draws: resamples.
        seed: the same differences always give the same interval.
    """
    data, groups = np.asarray(differences, np.float64), groups_of(strata)
    weights = weights_of(groups, balanced)
    value = float(weights @ data)
    if len(data) < 2:
        return Delta(value=value, low=None, high=None, n=1, detectable=None, margin=margin, equivalent=None)
    means = stratified_means(data, groups, weights, draws, seed)
    low, high = (float(edge) for edge in np.quantile(means, [LEVEL / 2, 1 - LEVEL / 2]))
    return Delta(
        value=value,
        low=low,
        high=high,
        n=len(data),
        detectable=detectable(standard_error(data, groups, weights)),
        margin=margin,
        equivalent=None if margin is None else tost(means, margin) < LEVEL,
    )


def stratified_interval(
    values: Sequence[float],
    strata: Sequence[str],
    *,
    balanced: bool = False,
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """The mean of one value a prompt with its 95 % interval: Wilson's where all are 0 or 1, which a bootstrap
    would give no width at the ends; else by a bootstrap within strata.
    """
    data, groups = np.asarray(values, np.float64), groups_of(strata)
    if not balanced and set(values) <= {0.0, 1.0}:
        return proportion(int(data.sum()), len(data))
    weights = weights_of(groups, balanced)
    value = float(weights @ data)
    if len(data) < 2:
        return Interval(value=value, low=None, high=None, n=len(data))
    means = stratified_means(data, groups, weights, draws, seed)
    low, high = (float(edge) for edge in np.quantile(means, [LEVEL / 2, 1 - LEVEL / 2]))
    return Interval(value=value, low=low, high=high, n=len(data))


def groups_of(strata: Sequence[str]) -> list[Group]:
    """Places of each stratum's members; strata of one, whose spread nobody can know, are taken together."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(strata):
        places.setdefault(name, []).append(place)
    groups = sorted(places.values(), key=len)
    alone = [group for group in groups if len(group) == 1]
    groups = groups[len(alone) :]
    rest = [group[0] for group in alone]
    if len(rest) == 1 and groups:
        groups[0] = groups[0] + rest
    elif rest:
        groups.append(rest)
    return [np.asarray(sorted(group)) for group in groups]


def weights_of(groups: Sequence[Group], balanced: bool) -> Float[np.ndarray, " n"]:
    """What each prompt counts in the mean; they sum to one."""
    size = sum(map(len, groups))
    weights = np.full(size, 1 / size)
    if balanced:
        for group in groups:
            weights[group] = 1 / (len(groups) * len(group))
    return weights


def stratified_means(
    data: Float[np.ndarray, " n"],
    groups: Sequence[Group],
    weights: Float[np.ndarray, " n"],
    draws: int,
    seed: int,
) -> Float[np.ndarray, " draws"]:
    """Weighted means of resamples that keep each stratum's size.

    Resampled means vary too little by (n - 1) / n, which is half in a stratum of two; they are spread about
    the stratum's own mean until their variance is unbiased (Rao and Wu 1988).
    """
    rng, total = np.random.default_rng(seed), np.zeros(draws)
    for group in groups:
        values, share = data[group], float(weights[group].sum())
        block = max(1, _CELLS // len(group))
        for start in range(0, draws, block):
            rows = min(block, draws - start)
            chosen = rng.integers(len(group), size=(rows, len(group)))
            spread = (values[chosen].mean(1) - values.mean()) * np.sqrt(len(group) / max(1, len(group) - 1))
            total[start : start + rows] += share * (values.mean() + spread)
    return total


def standard_error(
    data: Float[np.ndarray, " n"],
    groups: Sequence[Group],
    weights: Float[np.ndarray, " n"],
) -> float:
    """Of the weighted mean: sqrt(sum over strata of W^2 s^2 / n)."""
    parts = [weights[group].sum() ** 2 * data[group].var(ddof=1) / len(group) for group in groups]
    return float(np.sqrt(sum(parts)))


def detectable(error: float, power: float = POWER, level: float = LEVEL) -> float:
    """The difference that a two-sided test with this standard error finds with this power (normal theory)."""
    normal = NormalDist()
    return (normal.inv_cdf(1 - level / 2) + normal.inv_cdf(power)) * error


def tost(means: Float[np.ndarray, " draws"], margin: float) -> float:
    """The larger p of the two one-sided tests that the difference is above -margin and below +margin.

    By the percentile bootstrap: below 0.05 just where the 90 % interval lies inside the margin.
    """
    return max(exceeds(means, -margin, above=False), exceeds(means, margin, above=True))


def exceeds(means: Float[np.ndarray, " draws"], bound: float, *, above: bool) -> float:
    """The share of resamples at `bound` or beyond, above or below it; never quite 0."""
    beyond = means >= bound if above else means <= bound
    return float((beyond.sum() + 1) / (len(means) + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for their number (Holm 1979): all that stay below 5 % hold together at 5 %."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted
