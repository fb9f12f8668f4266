"""The geometry of drafting: which place of the token grid a head looks at from where it stands.

A state is named by the token it emits: `s(y,x)` is the trunk output whose logits are the law of token
(y,x). A head reads the pair [s(y,x) ; embedding of token (y,x)] and predicts s(y+down, x+right). Raster
indices count image tokens alone, so a backbone's row ends change nothing here.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from backbones.contract import Grid


@dataclass(frozen=True, order=True)
class Offset:
    """A step to the right along a row, or straight down; never both.

    Raises:
        ValueError: if the step is not purely horizontal or purely vertical.
    """

    down: int
    right: int

    def __post_init__(self) -> None:
        if min(self.down, self.right) != 0 or max(self.down, self.right) < 1:
            raise ValueError(f"an offset goes right or down, found down={self.down}, right={self.right}")

    @property
    def label(self) -> str:
        """`h+d` for d tokens to the right, `v+d` for d rows down."""
        return f"h+{self.right}" if self.down == 0 else f"v+{self.down}"


def horizontal_offsets(count: int) -> tuple[Offset, ...]:
    """The offsets `h+1` to `h+count`."""
    return tuple(Offset(0, step) for step in range(1, count + 1))


def vertical_offsets(count: int) -> tuple[Offset, ...]:
    """The offsets `v+1` to `v+count`."""
    return tuple(Offset(step, 0) for step in range(1, count + 1))


def pairs(grid: Grid, offset: Offset) -> tuple[Int[Tensor, " K"], Int[Tensor, " K"]]:
    """Every (source, target) of `offset` inside `grid` as raster indices; K is 0 where it does not fit.

    A target stays in its source's row (horizontal) or column (vertical): a pair never wraps.
    """
    index = torch.arange(grid.size).view(grid.rows, grid.cols)
    target = index[offset.down :, offset.right :]
    source = index[: target.shape[0], : target.shape[1]]
    return source.flatten(), target.flatten()
