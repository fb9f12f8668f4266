"""Banks of predictors, one per offset: the draft heads of SSD, and those of 1-D multi-token prediction."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from backbones.contract import Grid
from backbones.errors import RowcastError
from heads.contract import DraftHeads, Lesson
from heads.loss import check_targets, head_losses
from heads.offsets import AnyOffset, horizontal_offsets, raster_offsets, vertical_offsets
from heads.options import MTPHeads, SSDHeads
from heads.predictor import Predictor


class PredictorBank(DraftHeads):
    """Separate predictors that share nothing, whatever their offsets."""

    def __init__(self, width: int, options: Any, offsets: tuple[AnyOffset, ...], hidden: float) -> None:
        """Makes a predictor for each of `offsets`.

        Args:
            width: D, the width of the backbone's states.
            options: what the bank is made from.
            offsets: where the predictors look, each once.
            hidden: SwiGLU width as a multiple of D.

        Raises:
            RowcastError: if a predictor would have no hidden unit.
        """
        super().__init__(width, options)
        units = round(hidden * width) if isfinite(hidden) else 0
        if units < 1:
            raise RowcastError(
                f"expected draft heads at least one unit wide, found {hidden} times width {width}; "
                "set heads.hidden=1.0"
            )
        self.offsets = offsets
        self.predictors = nn.ModuleDict({offset.label: Predictor(width, units) for offset in offsets})

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(offset.label for offset in self.offsets)

    def parts(self) -> Mapping[str, nn.Module]:
        return {f"head {label}": predictor for label, predictor in self.predictors.items()}

    def check_targets(self, grid: Grid) -> None:
        check_targets(self.offsets, grid)

    def losses(self, lesson: Lesson) -> dict[str, Float[Tensor, ""]]:
        """Smooth-L1 of every predictor."""
        return {offset.label: loss for offset, loss in head_losses(self, lesson).items()}

    def forward(
        self, offset: AnyOffset, state: Float[Tensor, "*B D"], embedding: Float[Tensor, "*B D"]
    ) -> Float[Tensor, "*B D"]:
        """The pre-norm state `offset` away from tokens given by their emission state and embedding.

        Raises:
            RowcastError: if the bank has no head for `offset`.
        """
        if offset.label not in self.predictors:
            raise RowcastError(
                f"expected a draft head {offset.label}, found {', '.join(self.labels)}; "
                "decode with smaller blocks or train more heads"
            )
        return self.predictors[offset.label](state, embedding)


class HeadBank(PredictorBank):
    """The heads of Spatially Speculative Decoding: the next tokens of a row, and the rows below.

    Args:
        width: D, the width of the backbone's states.
        horizontal: heads along the row, `h+1` to `h+horizontal`.
        vertical: heads down the column, `v+1` to `v+vertical`.
        hidden: SwiGLU width as a multiple of D.

    Raises:
        RowcastError: if there would be no head, or a head without a hidden unit.
    """

    kind = "ssd"

    def __init__(self, width: int, horizontal: int = 5, vertical: int = 1, hidden: float = 1.0) -> None:
        if min(horizontal, vertical) < 0 or horizontal + vertical == 0:
            raise RowcastError(
                f"expected at least one draft head, found {horizontal} horizontal and {vertical} vertical; "
                "set heads.horizontal=5 heads.vertical=1"
            )
        options = SSDHeads(horizontal=horizontal, vertical=vertical, hidden=hidden)
        offsets = horizontal_offsets(horizontal) + vertical_offsets(vertical)
        super().__init__(width, options, offsets, hidden)
        self.horizontal, self.vertical = horizontal, vertical


class MTPBank(PredictorBank):
    """1-D multi-token prediction: the same predictors for the next tokens of the raster, past row ends.

    Args:
        width: D, the width of the backbone's states.
        ahead: heads along the raster, `t+1` to `t+ahead`.
        hidden: SwiGLU width as a multiple of D.

    Raises:
        RowcastError: if there would be no head, or a head without a hidden unit.
    """

    kind = "mtp"

    def __init__(self, width: int, ahead: int = 5, hidden: float = 1.0) -> None:
        if ahead < 1:
            raise RowcastError(f"expected at least one draft head, found {ahead}; set heads.ahead=5")
        options = MTPHeads(ahead=ahead, hidden=hidden)
        super().__init__(width, options, raster_offsets(ahead), hidden)
        self.ahead = ahead
