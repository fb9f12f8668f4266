"""Where on the grid drafts stand, and when each cell is final: means over the logged images."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from backbones.contract import Grid
from eval.masks import cells
from eval.samples import Sample

DIRECTIONS = {"right": "along the row", "down": "from the row above", "drafts": "drafts"}


@dataclass(frozen=True, kw_only=True)
class AcceptanceMap:
    """One direction and round."""

    direction: str
    round: int
    cells: Float[np.ndarray, "R C"]
    """Accepted share of the drafts of each cell; NaN where there were none."""
    accepted: int
    examined: int


@dataclass(frozen=True, kw_only=True)
class Maps:
    """One decoder."""

    acceptance: list[AcceptanceMap]
    order: Float[np.ndarray, "R C"]
    """The mean forward after which each cell was final."""


def maps_of(images: Iterable[Sample], grid: Grid) -> Maps | None:
    """The maps of one decoder's images; none where there are none."""
    counts: dict[str, np.ndarray] = {}
    order, number = np.zeros(grid.size), 0
    for image in images:
        number += 1
        order += np.asarray(image.order, np.float64)
        for name, masks in image.judged.items():
            total = counts.setdefault(name, np.zeros((2, grid.size), np.int64))
            total += np.stack([cells(mask, grid.size) for mask in masks])
    if number == 0:
        return None
    places = list(DIRECTIONS)
    names = sorted(counts, key=lambda name: (places.index(name.partition("/")[0]), name))
    return Maps(
        acceptance=[_acceptance(name, counts[name], grid) for name in names],
        order=(order / number).reshape(grid.rows, grid.cols),
    )


def _acceptance(name: str, counts: np.ndarray, grid: Grid) -> AcceptanceMap:
    examined, accepted = counts
    with np.errstate(invalid="ignore"):
        share = np.where(examined > 0, accepted / examined, np.nan)
    direction, _, index = name.partition("/")
    return AcceptanceMap(
        direction=direction,
        round=int(index),
        cells=share.reshape(grid.rows, grid.cols),
        accepted=int(accepted.sum()),
        examined=int(examined.sum()),
    )
