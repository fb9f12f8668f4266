"""The geometry of drafting: which place of the token grid a head looks at from where it stands.

A state is named by the token it emits: `s(y,x)` is the trunk output whose logits are the law of token
(y,x). A head reads the pair [s(y,x) ; embedding of token (y,x)] and predicts the state at its offset; a
vertical one may read the pairs to the left and to the right of it too. Raster indices count image tokens
alone, so a backbone's row ends change nothing here.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
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

    @property
    def option(self) -> str:
        """The option that decides how far such offsets reach."""
        return "heads.vertical" if self.down else "heads.horizontal"


@dataclass(frozen=True, order=True)
class Ahead:
    """`steps` tokens on along the raster, past the ends of rows: all that text-born drafters know.

    Raises:
        ValueError: if it does not go forward.
    """

    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"an offset along the raster goes forward, found {self.steps}")

    @property
    def label(self) -> str:
        """`t+d` for d tokens on."""
        return f"t+{self.steps}"

    @property
    def option(self) -> str:
        """The option that decides how far such offsets reach."""
        return "heads.ahead"


AnyOffset = Offset | Ahead


def horizontal_offsets(count: int) -> tuple[Offset, ...]:
    """The offsets `h+1` to `h+count`."""
    return tuple(Offset(0, step) for step in range(1, count + 1))


def vertical_offsets(count: int) -> tuple[Offset, ...]:
    """The offsets `v+1` to `v+count`."""
    return tuple(Offset(step, 0) for step in range(1, count + 1))


def raster_offsets(count: int) -> tuple[Ahead, ...]:
    """The offsets `t+1` to `t+count`."""
    return tuple(Ahead(step) for step in range(1, count + 1))


def pairs(grid: Grid, offset: AnyOffset) -> tuple[Int[Tensor, " K"], Int[Tensor, " K"]]:
    """Every (source, target) of `offset` inside `grid` as raster indices; K is 0 where it does not fit.

    The target of an `Offset` stays in its source's row (horizontal) or column (vertical): a pair never wraps.
    """
    if isinstance(offset, Ahead):
        source = torch.arange(max(0, grid.size - offset.steps))
        return source, source + offset.steps
    index = torch.arange(grid.size).view(grid.rows, grid.cols)
    target = index[offset.down :, offset.right :]
    source = index[: target.shape[0], : target.shape[1]]
    return source.flatten(), target.flatten()


def beside(
    vectors: Float[Tensor, "*B S D"], places: Int[Tensor, " K"], cols: int, columns: int, first: int = 0
) -> Float[Tensor, "*B K CD"]:
    """What a head that reads C `columns` (1 or 3) is given of its places: their own vectors, then those of
    their left and of their right neighbours.

    Beyond the ends of a row stand zeros: to a head without biases, nothing.

    Args:
        vectors: of raster places from `first` on, or of whole images one after another.
        places: raster indices; with three columns their neighbours in the row are among the vectors.
        cols: tokens of a row.
        columns: C.
        first: raster index of the first of `vectors`.
    """
    own = vectors[..., places - first, :]
    if columns == 1:
        return own
    column, last = places % cols, vectors.shape[-2] - 1
    left = vectors[..., (places - 1 - first).clamp_min(0), :].masked_fill((column == 0)[:, None], 0)
    right = vectors[..., (places + 1 - first).clamp_max(last), :].masked_fill(
        (column == cols - 1)[:, None], 0
    )
    return torch.cat([own, left, right], -1)
