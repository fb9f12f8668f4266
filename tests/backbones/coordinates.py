"""A stub backbone whose states say which token they emit: an off-by-one anywhere above it shows at once.

State and embedding are coordinates `[row, col]`. The state that emits token (y, x) is exactly `[y, x]` and
the embedding of code v is the cell of raster index v, so greedy decoding must give codes 0, 1, 2, ...
Inside, every slot of the sequence exists (header, row ends), so that their bookkeeping is exercised too.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from backbones.contract import Backbone, Grid, Prompt, Sampling, Step
from backbones.errors import RowcastError


class CoordinateBackbone(Backbone):
    """`header` prompt slots, then the image in raster order, with a slot after each row if `row_end`."""

    def __init__(self, rows: int, cols: int, row_end: bool = False, header: int = 3) -> None:
        self.name = "coordinates"
        self.grid = Grid(rows=rows, cols=cols)
        self.codes = rows * cols
        self.width = 2
        self.sampling = Sampling(guidance=2.0)
        self.fingerprint = f"coordinates {rows}x{cols} row_end={row_end} header={header}"
        self.header = header
        cells = [(y, x) for y in range(rows) for x in range(cols + row_end)]
        emitted = [(-1, -1)] * (header - 1) + cells
        # What each slot of the sequence emits; a row end shows as column `cols`.
        self.slots: Float[Tensor, "S 2"] = torch.tensor(emitted, dtype=torch.float32)
        self._stride = cols + row_end
        self._places: list[int] | None = None
        self._rows = 0

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32

    def to(self, device: torch.device | str) -> "CoordinateBackbone":
        self._places = None
        return self

    @property
    def length(self) -> int:
        return len(self._present())

    def encode(self, prompts: Sequence[str], guided: bool = True) -> Prompt:
        rows = len(prompts) * (2 if guided else 1)
        return Prompt(
            embeds=torch.zeros(rows, self.header, 2),
            mask=torch.ones(rows, self.header, dtype=torch.bool),
            images=len(prompts),
        )

    def begin(self, prompt: Prompt) -> Step:
        self._places, self._rows = [], len(prompt.mask)
        return self._step([0])

    def forward(self, tokens: Int[Tensor, "N T"]) -> Step:
        start, end = self._raster(), self._raster() + tokens.shape[1]
        if end > self.grid.size:
            raise RowcastError(f"expected at most {self.grid.size} image tokens: shorten the block")
        self._places = list(range(end))
        return self._step(range(start + 1, end + 1))

    def keep(self, length: int) -> None:
        if not 0 <= length <= self._raster():
            raise RowcastError(f"expected to keep 0 to {self.length} image tokens, found {length}")
        self._places = list(range(length))

    def forward_at(
        self, tokens: Int[Tensor, "N T"], places: Sequence[int], sees: Bool[Tensor, "T E"]
    ) -> Step:
        """An entry may see nothing that lies behind it, and nothing twice."""
        present = [*self._present(), *places]
        old = len(present) - len(places)
        for index, (place, seen) in enumerate(zip(places, sees.tolist(), strict=True)):
            before = [p for entry, p in enumerate(present) if seen[entry] and entry != old + index]
            if len(set(before)) < len(before) or any(p >= place for p in before):
                raise RowcastError(
                    f"expected places before {place}, each once, found {before}: mend the mask"
                )
        self._places = present
        return self._step([place + 1 for place in places])

    def keep_entries(self, entries: Sequence[int]) -> None:
        self._places = [self._present()[entry] for entry in entries]

    def embed(self, tokens: Int[Tensor, "*B"]) -> Float[Tensor, "*B 2"]:
        return torch.stack([tokens // self.grid.cols, tokens % self.grid.cols], -1).float()

    def head(self, hidden: Float[Tensor, "*B 2"]) -> Float[Tensor, "*B V"]:
        """The nearer a code's cell, the larger its logit."""
        cells = self.embed(torch.arange(self.codes))
        return -16 * (hidden[..., None, :] - cells).square().sum(-1)

    def codebook(self) -> Float[Tensor, "V 2"]:
        return self.embed(torch.arange(self.codes))

    def decode(self, tokens: Int[Tensor, "N P"]) -> UInt8[Tensor, "N 3 H W"]:
        grey = (tokens * 255 // self.codes).to(torch.uint8).unflatten(1, (self.grid.rows, self.grid.cols))
        return grey[:, None].expand(-1, 3, -1, -1).contiguous()

    def states(self, prompt: Prompt, tokens: Int[Tensor, "N P"]) -> Float[Tensor, "GN P 2"]:
        return self._emitting(range(tokens.shape[1])).repeat(len(prompt.mask), 1, 1)

    def _present(self) -> list[int]:
        if self._places is None:
            raise RowcastError("expected an open session, found none: call begin(prompt) first")
        return self._places

    def _raster(self) -> int:
        """The number of tokens in the cache, if they lie in raster order."""
        if self._present() != list(range(self.length)):
            raise RowcastError(f"expected tokens in raster order in the cache, found {self._places}")
        return self.length

    def _emitting(self, places: Sequence[int]) -> Float[Tensor, "T 2"]:
        """States that emit the tokens at `places`; past the image, the last slot's."""
        index = torch.tensor(list(places))
        slot = self.header - 1 + index // self.grid.cols * self._stride + index % self.grid.cols
        return self.slots[slot.clamp_max(len(self.slots) - 1)]

    def _step(self, places: Sequence[int]) -> Step:
        hidden = self._emitting(places).repeat(self._rows, 1, 1)
        return Step(hidden=hidden, logits=self.head(hidden))
