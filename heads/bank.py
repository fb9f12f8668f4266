"""Banks of predictors, one per offset: the draft heads of SSD, and those of 1-D multi-token prediction."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from backbones.contract import Grid
from backbones.errors import RowcastError
from heads.contract import Draft, DraftHeads, Lesson
from heads.correction import Correction, correction_losses
from heads.loss import check_targets, head_losses
from heads.offsets import AnyOffset, Offset, horizontal_offsets, pairs, raster_offsets, vertical_offsets
from heads.options import MTPHeads, SSDHeads
from heads.predictor import Predictor


class PredictorBank(DraftHeads):
    """Separate predictors that share nothing, whatever their offsets."""

    def __init__(
        self, width: int, options: Any, offsets: tuple[AnyOffset, ...], hidden: float, columns: int = 1
    ) -> None:
        """Makes a predictor for each of `offsets`.

        Args:
            width: D, the width of the backbone's states.
            options: what the bank is made from.
            offsets: where the predictors look, each once.
            hidden: SwiGLU width as a multiple of D.
            columns: cells that the vertical predictors read, 1 or 3.

        Raises:
            RowcastError: if a predictor would have no hidden unit.
        """
        super().__init__(width, options)
        units = _units(hidden, width, "hidden")
        self.offsets, self._columns = offsets, columns
        self.predictors = nn.ModuleDict(
            {offset.label: Predictor(width, units, self.columns(offset)) for offset in offsets}
        )

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(offset.label for offset in self.offsets)

    def parts(self) -> Mapping[str, nn.Module]:
        return {f"head {label}": predictor for label, predictor in self.predictors.items()}

    def check_targets(self, grid: Grid) -> None:
        check_targets(self.offsets, grid)

    def losses(self, lesson: Lesson) -> dict[str, Float[Tensor, ""]]:
        """Smooth-L1 of every predictor."""
        return head_losses(self, lesson)

    def columns(self, offset: AnyOffset) -> int:
        """Cells that the predictor of `offset` reads: 1, or 3 with the neighbours in the row."""
        return self._columns if isinstance(offset, Offset) and offset.down else 1

    def drafts(self, lesson: Lesson) -> Iterator[Draft]:
        self.check_targets(lesson.grid)
        for offset in self.offsets:
            source, target = (index.to(lesson.states.device) for index in pairs(lesson.grid, offset))
            yield Draft(
                label=offset.label,
                predicted=self(offset, lesson.states[:, source], lesson.embeddings[:, source]),
                targets=lesson.states[:, target],
            )

    def forward(
        self, offset: AnyOffset, state: Float[Tensor, "*B CD"], embedding: Float[Tensor, "*B CD"]
    ) -> Float[Tensor, "*B D"]:
        """The pre-norm state `offset` away from tokens given by their emission state and embedding.

        Where the predictor reads three columns, both come from `offsets.beside`.

        Raises:
            RowcastError: if the bank has no head for `offset`.
        """
        if offset.label not in self.predictors:
            raise RowcastError(
                f"expected a draft head {offset.label}, found {', '.join(self.labels)}; "
                "decode with smaller blocks or train more heads"
            )
        return self.predictors[offset.label](state, embedding)


def _units(multiple: float, width: int, option: str) -> int:
    """The hidden units of a head; refuses none."""
    units = round(multiple * width) if isfinite(multiple) else 0
    if units < 1:
        raise RowcastError(
            f"expected draft heads at least one unit wide, found {multiple} times width {width}; "
            f"set heads.{option}=1.0"
        )
    return units


class HeadBank(PredictorBank):
    """The heads of Spatially Speculative Decoding: the next tokens of a row, and the rows below.

    Args:
        width: D, the width of the backbone's states.
        horizontal: heads along the row, `h+1` to `h+horizontal`.
        vertical: heads down the column, `v+1` to `v+vertical`.
        columns: cells that these read: 1, as in the paper, or 3.
        hidden: SwiGLU width as a multiple of D.
        correction: SwiGLU width of the correction head, likewise; 0 for a bank without one, as in the paper
            (arXiv 2606.20543).
        law_weight: of the cross-entropy of corrected laws in the loss.
        draft_law_weight: of the cross-entropy of drafts' laws in the loss; 0, as in the paper: states alone.

    Raises:
        RowcastError: if there would be no head, or a head without a hidden unit.
    """

    kind = "ssd"

    def __init__(
        self,
        width: int,
        horizontal: int = 5,
        vertical: int = 1,
        hidden: float = 1.0,
        *,
        columns: int = 1,
        draft_law_weight: float = 0.0,
        correction: float = 0.0,
        law_weight: float = 0.3,
    ) -> None:
        if min(horizontal, vertical) < 0 or horizontal + vertical == 0:
            raise RowcastError(
                f"expected at least one draft head, found {horizontal} horizontal and {vertical} vertical; "
                "set heads.horizontal=5 heads.vertical=1"
            )
        options = SSDHeads(
            horizontal=horizontal,
            vertical=vertical,
            columns=columns,
            hidden=hidden,
            draft_law_weight=draft_law_weight,
            correction=correction,
            law_weight=law_weight,
        )
        offsets = horizontal_offsets(horizontal) + vertical_offsets(vertical)
        super().__init__(width, options, offsets, hidden, columns)
        self.horizontal, self.vertical = horizontal, vertical
        self.correction = Correction(width, _units(correction, width, "correction")) if correction else None

    @property
    def reads_siblings(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.correction is not None

    def parts(self) -> Mapping[str, nn.Module]:
        last = {} if self.correction is None else {"correction": self.correction}
        return {**super().parts(), **last}

    def losses(self, lesson: Lesson) -> dict[str, Float[Tensor, ""]]:
        """The losses of every predictor, and what the correction head learns by."""
        own = head_losses(self, lesson, laws=self.options.draft_law_weight > 0)
        last = {} if self.correction is None else correction_losses(self.correction, lesson)
        return {**own, **last}

    def objective(self, losses: Mapping[str, Float[Tensor, ""]]) -> Float[Tensor, ""]:
        """The mean of the predictors' states, as in the paper, and the other losses by their weights.

        The correction shares no weight with the predictors: it is added.
        """
        total = super().objective({label: losses[label] for label in self.labels})
        if self.options.draft_law_weight:
            laws = super().objective({label: losses[f"{label} law"] for label in self.labels})
            total = total + self.options.draft_law_weight * laws
        if self.correction is not None:
            total = total + losses["correction"] + self.options.law_weight * losses["correction law"]
        return total

    def correct(
        self,
        state: Float[Tensor, "*B D"],
        before: Float[Tensor, "*B D"],
        old: Float[Tensor, "*B D"],
        new: Float[Tensor, "*B D"],
    ) -> Float[Tensor, "*B D"]:
        """What becomes of a state when the token before it, in the same row, is replaced.

        By the correction head; in a bank without one, by the difference that the tokens make to h+1.

        Args:
            state: the state beside the old token.
            before: the state that emits the old and the new token.
            old: embedding of the old token.
            new: embedding of the new one.
        """
        if self.correction is not None:
            return self.correction(state, before, old, new)
        right = Offset(0, 1)
        return state + self(right, before, new) - self(right, before, old)


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
