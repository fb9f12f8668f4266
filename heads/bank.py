"""The bank of draft heads: one predictor per offset, and nothing of the backbone."""

from math import isfinite

from jaxtyping import Float
from torch import Tensor, nn

from backbones.errors import RowcastError
from heads.offsets import Offset, horizontal_offsets, vertical_offsets
from heads.predictor import Predictor


class HeadBank(nn.Module):
    """Separate predictors for the next tokens of a row and for the rows below.

    Args:
        width: D, the width of the backbone's states.
        horizontal: heads along the row, `h+1` to `h+horizontal`.
        vertical: heads down the column, `v+1` to `v+vertical`.
        hidden: SwiGLU width as a multiple of D.

    Raises:
        RowcastError: if there would be no head, or a head without a hidden unit.
    """

    def __init__(self, width: int, horizontal: int = 5, vertical: int = 1, hidden: float = 1.0) -> None:
        super().__init__()
        if min(horizontal, vertical) < 0 or horizontal + vertical == 0:
            raise RowcastError(
                f"expected at least one draft head, found {horizontal} horizontal and {vertical} vertical; "
                "set heads.horizontal=5 heads.vertical=1"
            )
        units = round(hidden * width) if isfinite(hidden) else 0
        if units < 1:
            raise RowcastError(
                f"expected draft heads at least one unit wide, found {hidden} times width {width}; "
                "set heads.hidden=1.0"
            )
        self.width = width
        self.horizontal = horizontal
        self.vertical = vertical
        self.hidden = hidden
        self.offsets: tuple[Offset, ...] = horizontal_offsets(horizontal) + vertical_offsets(vertical)
        self.predictors = nn.ModuleDict({offset.label: Predictor(width, units) for offset in self.offsets})

    def forward(
        self, offset: Offset, state: Float[Tensor, "*B D"], embedding: Float[Tensor, "*B D"]
    ) -> Float[Tensor, "*B D"]:
        """The pre-norm state `offset` away from tokens given by their emission state and embedding.

        Raises:
            RowcastError: if the bank has no head for `offset`.
        """
        if offset.label not in self.predictors:
            raise RowcastError(
                f"expected a draft head {offset.label}, found {self.horizontal} horizontal and "
                f"{self.vertical} vertical heads; decode with smaller blocks or train more heads"
            )
        return self.predictors[offset.label](state, embedding)
