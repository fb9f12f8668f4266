"""Where image tokens lie in the trunk's sequence: the one place that knows of row ends.

A row end is a suffix of the last token of its row. It takes a slot of its own and rides in the same forward;
the token's entry is the state at the row end, because that slot predicts the next image token. The row end
of the last row predicts nothing, so it is never fed.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from backbones.contract import Grid


@dataclass(frozen=True, kw_only=True)
class Slots:
    """Slots of an image of `grid` tokens, counted from its first one."""

    grid: Grid
    row_ends: bool
    """Whether a forced token stands after every row."""

    def before(self, token: int) -> int:
        """Slots that the image tokens before raster index `token` take; their last emits `token`."""
        ends = min(token // self.grid.cols, self.grid.rows - 1) if self.row_ends else 0
        return token + ends

    def of(self, places: Int[Tensor, " E"]) -> tuple[Int[Tensor, " E"], Int[Tensor, " E"]]:
        """The first slot of the token at each raster place, and its slots: 2 with its row end, else 1."""
        if not self.row_ends:
            return places, torch.ones_like(places)
        before = places + (places // self.grid.cols).clamp_max(self.grid.rows - 1)
        after = places + 1 + ((places + 1) // self.grid.cols).clamp_max(self.grid.rows - 1)
        return before, after - before

    def place(
        self, tokens: Int[Tensor, "N T"], start: int, row_end: int
    ) -> tuple[Int[Tensor, "N W"], Int[Tensor, " T"] | None]:
        """Image tokens `start..start+T-1` with their row ends, and which of the W slots are entries.

        No index means that every slot is one (W = T).
        """
        count = tokens.shape[1]
        base = self.before(start)
        width = self.before(start + count) - base
        if width == count:
            return tokens, None
        before = torch.tensor([self.before(start + t) - base for t in range(count + 1)], device=tokens.device)
        ids = tokens.new_full((len(tokens), width), row_end)
        ids[:, before[:-1]] = tokens
        return ids, before[1:] - 1
