"""Would more data, or more steps, make the heads better? Two forecasts from one run, with their errors.

Both are in units of acceptance and come with 95 % intervals from resampling the images that were judged: the
images, not their tokens, are the independent units.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

DRAWS = 1000
LEAST_POINTS = 4
"""Validations after the first step that a curve of three parameters is fitted to; fewer give none."""
LEAST_IMAGES = 4
"""On each side, for an interval."""
JITTER = 0.003
"""Least standard deviation of a validation around the curve: what one optimiser step more or less changes."""
POWERS = np.geomspace(0.1, 2, 40)
"""Exponents that the curve may have, equally likely beforehand: from nearly logarithmic to soon flat."""
GRID = 48


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A saturating power law through the validations."""

    images: list[float]
    """Where it is given: from the first validation to twice the last."""
    value: list[float]
    low: list[float]
    high: list[float]
    """95 %, without what all points share: how hard the images happen to be."""
    residual: float
    """Root mean square distance of the validations from the best curve."""
    gain: Estimate
    """From training on for as many images again."""


def fit_curve(images: Float[ndarray, " T"], accepted: Float[ndarray, "T N"], seed: int = 0) -> Curve | None:
    """Fits `limit - drop * images ** -power` to acceptance against images trained on, repeats among them.

    Exponents are weighed by how well they fit instead of picking one: a few points seldom tell them apart,
    and the forecast has to say so. Each draw resamples the images, then an exponent, then limit and drop.

    What it cannot know: within a run the learning rate falls to zero at the end, which lifts the last points
    as a longer run would not be lifted there, and further passes over the same images teach less than the
    ones before. The gain is for that an upper estimate of what twice the steps bring.

    Args:
        images: trained on until each validation, increasing and above 0.
        accepted: of N held-out images, the same at every validation.
        seed: of the draws; the same input always gives the same forecast.

    Returns:
        None with fewer than `LEAST_POINTS` validations or `LEAST_IMAGES` images.
    """
    points, count = accepted.shape
    if points < LEAST_POINTS or count < LEAST_IMAGES:
        return None
    rng = np.random.default_rng(seed)
    scale = images / images[-1]
    design = np.stack([np.ones((len(POWERS), points)), -(scale ** -POWERS[:, None])], -1)
    inverse = np.linalg.pinv(design)
    _, whole = _solve(design, inverse, accepted.mean(1)[None])
    sigma = max(JITTER, float(np.sqrt(whole.min() / (points - 3))))

    resampled = accepted[:, rng.integers(count, size=(DRAWS, count))].mean(2).T
    fits, squares = _solve(design, inverse, resampled)
    weights = np.exp(-(squares - squares.min(1, keepdims=True)) / (2 * sigma**2))
    edges = weights.cumsum(1) / weights.sum(1, keepdims=True)
    chosen = (rng.random((DRAWS, 1)) > edges).sum(1).clip(max=len(POWERS) - 1)
    noise = np.einsum("dpt,dt->dp", inverse[chosen], sigma * rng.standard_normal((DRAWS, points)))
    limit, drop = (fits[np.arange(DRAWS), chosen] + noise).T
    drop = drop.clip(min=0)

    where = np.geomspace(scale[0], 2, GRID)
    lines = limit[:, None] - drop[:, None] * where ** -POWERS[chosen, None]
    shared = resampled.mean(1, keepdims=True) - accepted.mean()
    low, high = np.quantile(lines - shared, [0.025, 0.975], axis=0)
    return Curve(
        images=(where * images[-1]).tolist(),
        value=np.median(lines - shared, axis=0).tolist(),
        low=low.tolist(),
        high=high.tolist(),
        residual=float(np.sqrt(whole.min() / points)),
        gain=_estimate(drop * (1 - 2.0 ** -POWERS[chosen])),
    )


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Acceptance on some images, image by image."""

    now: Float[ndarray, " N"]
    untrained: Float[ndarray, " N"]
    """By the heads before the first step: how easy the image is."""


def data_gain(held_out: Judged, seen: Judged, seed: int = 0) -> tuple[Estimate, Estimate] | None:
    """What the gap between images trained on and held-out ones says about twice the data.

    A fit to n independent images does worse on new images than the best heads of its kind would, by about as
    much as it does better on its own: for maximum likelihood both are d / 2n with d parameters (the result
    behind Akaike's and Takeuchi's criteria). So the gap is twice what unlimited data would bring, and since
    all of it falls as 1 / n, twice the data bring a quarter of the gap.

    Some images are easier than others, which says nothing about the heads and is most of the spread: on the
    pocket model it correlates by 0.9 with what untrained heads get. It is taken out by regression on that
    (analysis of covariance, one slope for both sides), as it must be for a few images to tell anything.

    What it cannot know: the result is for large n and for the loss itself; acceptance follows it to first
    order. Heads that have not yet learnt what their images hold show less of a gap than they will. It says
    nothing of prompts that are unlike those of the rollouts.

    Args:
        held_out: images that were never trained on.
        seen: images that each were trained on at least once.
        seed: of the resampling.

    Returns:
        The gap, and the gain of twice the rollouts, not below 0; None with fewer than `LEAST_IMAGES` images
        on a side.
    """
    if min(len(held_out.now), len(seen.now)) < LEAST_IMAGES:
        return None
    adjusted = _adjusted(seen, held_out)
    gap = fair_gap(held_out, seen)
    rng = np.random.default_rng(seed)
    means = [side[rng.integers(len(side), size=(DRAWS, len(side)))].mean(1) for side in adjusted]
    images = sum(map(len, adjusted))
    # Two means and a slope are estimated; resampling alone knows of none of them.
    drawn = gap + (means[0] - means[1] - gap) * np.sqrt(images / (images - 3))
    low, high = (float(edge) for edge in np.quantile(drawn, [0.025, 0.975]))
    gain = Estimate(value=max(0.0, gap) / 4, low=max(0.0, low) / 4, high=max(0.0, high) / 4)
    return Estimate(value=gap, low=low, high=high), gain


def fair_gap(held_out: Judged, seen: Judged) -> float:
    """Acceptance on images trained on less that on held-out ones, as if all were equally easy."""
    one, other = _adjusted(seen, held_out)
    return float(one.mean() - other.mean())


def _adjusted(*sides: Judged) -> list[Float[ndarray, " N"]]:
    """Acceptance less what the ease of the images explains; one slope on untrained acceptance for all."""
    slope = _slope(sides)
    return [side.now - slope * side.untrained for side in sides]


def _slope(sides: Sequence[Judged]) -> float:
    """0 where untrained acceptance does not vary."""
    before = np.concatenate([side.untrained - side.untrained.mean() for side in sides])
    now = np.concatenate([side.now - side.now.mean() for side in sides])
    spread = float(before @ before)
    return float(before @ now) / spread if spread > 0 else 0.0


def _solve(
    design: Float[ndarray, "C T 2"], inverse: Float[ndarray, "C 2 T"], values: Float[ndarray, "B T"]
) -> tuple[Float[ndarray, "B C 2"], Float[ndarray, "B C"]]:
    """Least squares for every exponent, no curve falling: (limit, drop), and squared distances."""
    fits = np.einsum("cpt,bt->bcp", inverse, values)
    falling = fits[..., 1] < 0
    fits[falling] = 0
    fits[..., 0] += falling * values.mean(1, keepdims=True)
    squares = ((values[:, None] - np.einsum("ctp,bcp->bct", design, fits)) ** 2).sum(-1)
    return fits, squares


def _estimate(draws: Float[ndarray, " B"]) -> Estimate:
    low, value, high = (float(edge) for edge in np.quantile(draws, [0.025, 0.5, 0.975]))
    return Estimate(value=value, low=low, high=high)
