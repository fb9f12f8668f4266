"""The statistics of the benchmark: spreads, bootstrap intervals, paired ratios, proportions.

The unit that is resampled is the prompt: several images of one prompt are averaged first (`by_prompt`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

DRAWS = 10_000
_BLOCK = 500


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A value with its 95 % interval over `n` independent units; no interval below two units."""

    value: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Median, quartiles and 90th percentile of `n` measurements."""

    median: float
    q1: float
    q3: float
    p90: float
    n: int


def spread(values: Sequence[float]) -> Spread:
    """Order statistics of `values` (linear interpolation), in the unit of `values`."""
    q1, median, q3, p90 = (
        float(q) for q in np.quantile(np.asarray(values, np.float64), [0.25, 0.5, 0.75, 0.9])
    )
    return Spread(median=median, q1=q1, q3=q3, p90=p90, n=len(values))


def by_prompt(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The mean of each prompt's values, in order of first appearance."""
    groups: dict[str, list[float]] = defaultdict(list)
    for prompt, value in pairs:
        groups[prompt].append(value)
    return {prompt: float(np.mean(values)) for prompt, values in groups.items()}


def mean_interval(values: Sequence[float], seed: int = 0) -> Interval:
    """The mean with its 95 % percentile-bootstrap interval.

    The resampling is seeded, so the same values always give the same interval.
    """
    data = np.asarray(values, np.float64)
    low, high = (None, None) if len(data) < 2 else _bootstrap_mean(data, seed)
    return Interval(value=float(data.mean()), low=low, high=high, n=len(data))


def _bootstrap_mean(data: np.ndarray, seed: int) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    blocks = [data[rng.integers(len(data), size=(_BLOCK, len(data)))].mean(1) for _ in range(DRAWS // _BLOCK)]
    low, high = np.quantile(np.concatenate(blocks), [0.025, 0.975])
    return float(low), float(high)


def ratio_interval(numerator: Sequence[float], denominator: Sequence[float], seed: int = 0) -> Interval:
    """The geometric mean of the paired ratios numerator[i] / denominator[i], with its 95 % interval.

    Unlike the ratio of means, it weighs every prompt alike and inverts when the two sides are swapped.
    """
    logs = mean_interval([float(x) for x in np.log(numerator) - np.log(denominator)], seed)
    low, high = (None if edge is None else float(np.exp(edge)) for edge in (logs.low, logs.high))
    return Interval(value=float(np.exp(logs.value)), low=low, high=high, n=logs.n)


def proportion(right: int, n: int) -> Interval:
    """The fraction right / n with its Wilson score interval (95 %), which stays honest at 0 and at 1."""
    z = 1.959963984540054
    p = right / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)))
    return Interval(value=p, low=max(0.0, centre - half), high=min(1.0, centre + half), n=n)
