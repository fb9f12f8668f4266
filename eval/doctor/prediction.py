"""How well predictors say what they claim to say, and whether they say something else better.

Errors are mean squares, as a share of what copying the source's state would leave: an untrained head has 1
everywhere, and one that was trained on other pairs, other states or another grid does better on those.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from backbones.contract import Grid
from heads.bank import PredictorBank
from heads.offsets import AnyOffset, Offset


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a few images tell of predictors; conditional rows first, then unconditional ones."""

    bank: PredictorBank
    grid: Grid
    states: Float[Tensor, "GN P D"]
    """Pre-norm emission states."""
    normed: Float[Tensor, "GN P D"]
    """The same after the final norm."""
    embeddings: Float[Tensor, "GN P D"]

    def errors(
        self,
        offset: AnyOffset,
        distances: Sequence[int],
        *,
        normed: bool = False,
        lag: int = 0,
    ) -> list[float]:
        """Errors on the states at each of `distances` along the raster, from the same places (NaN: none).

        Args:
            offset: whose predictor is asked.
            distances: from its source to what it may have predicted.
            normed: feed states after the final norm, and compare with such.
            lag: places by which the embedding that is fed comes later than the state.
        """
        sources = self._sources(offset, [*distances, lag])
        truth = self.normed if normed else self.states
        states, embeddings = truth[:, sources], self.embeddings[:, sources + lag]
        with torch.no_grad():
            predicted = self.bank(offset, states, embeddings).float()
        targets = [truth[:, sources + distance].float() for distance in distances]
        return [float(_square(predicted - target) / _square(states - target)) for target in targets]

    def _sources(self, offset: AnyOffset, distances: Sequence[int]) -> Int[Tensor, " K"]:
        """Places from which every distance stays in the image, and a step right in its row."""
        place = torch.arange(self.grid.size)
        fits = (place + min(distances) >= 0) & (place + max(distances) < self.grid.size)
        if isinstance(offset, Offset) and offset.right:
            column = place % self.grid.cols
            fits &= (column + min(distances) >= 0) & (column + max(distances) < self.grid.cols)
        return place[fits]


def distance_of(offset: AnyOffset, grid: Grid) -> int:
    """Along the raster, from source to target."""
    return offset.down * grid.cols + offset.right if isinstance(offset, Offset) else offset.steps


def _square(error: Float[Tensor, "N K D"]) -> Float[Tensor, ""]:
    return error.square().mean()
