"""A few rows in the middle of an image as a backbone of their own: what a row costs, without a whole image.

The rows above are random codes in the cache, fed once; every painting rolls back to them. So positions,
masks and the length of the cache are those of a real image half-way down.
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn

from backbones.contract import Backbone, Grid, Prompt, Step

FILLER_SEED = 0


class Window(Backbone):
    """The rows `first .. first+rows` of a backbone's images, its session held open on what lies above.

    `rows` may be set anew between paintings. What is painted is timed and thrown away.
    """

    def __init__(self, whole: Backbone, prompts: Sequence[str], *, guided: bool, first: int) -> None:
        """Prefills, and feeds the rows above.

        Args:
            whole: the backbone; its open session is replaced, and belongs to this window from now on.
            prompts: N texts.
            guided: whether images have an unconditional branch.
            first: the window's topmost row.

        Raises:
            RowcastError: if a prompt is refused.
        """
        self._whole, self._above, self.rows = whole, first * whole.grid.cols, 1
        self.name, self.codes, self.width = whole.name, whole.codes, whole.width
        self.sampling, self.fingerprint = whole.sampling, whole.fingerprint
        self.cache_read = 0
        """Bytes of keys and values that forwards have read since this was set to 0."""
        self._ordered = True
        """Whether the cache is in raster order for sure."""
        self._prompt = whole.encode(prompts, guided=guided)
        self._first = whole.begin(self._prompt)
        generator = torch.Generator().manual_seed(FILLER_SEED)
        for _ in range(first):  # a row at a time: logits of the whole block would not fit
            codes = torch.randint(whole.codes, (len(prompts), whole.grid.cols), generator=generator)
            self._first = whole.forward(codes.to(whole.device))
        self._first = Step(hidden=self._first.hidden[:, -1:], logits=self._first.logits[:, -1:])

    @property
    def grid(self) -> Grid:  # pyright: ignore[reportIncompatibleVariableOverride]
        return Grid(rows=self.rows, cols=self._whole.grid.cols)

    @property
    def device(self) -> torch.device:
        return self._whole.device

    @property
    def dtype(self) -> torch.dtype:
        return self._whole.dtype

    @property
    def parts(self) -> Mapping[str, nn.Module]:
        return self._whole.parts

    @property
    def length(self) -> int:
        return self._whole.length - self._above

    def to(self, device: torch.device | str) -> "Window":
        raise NotImplementedError("a window holds a session open, which does not move")

    def encode(self, prompts: Sequence[str], guided: bool = True) -> Prompt:
        """The window's own prompt: encoding is timed with the prefill."""
        return self._prompt

    def begin(self, prompt: Prompt) -> Step:
        """Rolls back to the rows above, and makes room for the states of all rows outside."""
        if self._ordered:
            self._whole.keep(self._above)
        else:
            self._whole.keep_entries(range(self._above))
        self._ordered = True
        outside = self._whole.grid.size - self.grid.size
        self._room = self._first.hidden.new_empty(len(self._first.hidden), outside, self.width)
        return self._first

    def forward(self, tokens: Int[Tensor, "N T"]) -> Step:
        step = self._whole.forward(tokens)
        self.cache_read += self._whole.cache_bytes or 0
        return step

    def forward_at(
        self, tokens: Int[Tensor, "N T"], places: Sequence[int], sees: Bool[Tensor, "T E"]
    ) -> Step:
        self._ordered = False
        above = sees.new_ones(len(sees), self._above)
        step = self._whole.forward_at(
            tokens, [self._above + place for place in places], torch.cat([above, sees], 1)
        )
        self.cache_read += self._whole.cache_bytes or 0
        return step

    def keep(self, length: int) -> None:
        self._whole.keep(self._above + length)

    def keep_entries(self, entries: Sequence[int]) -> None:
        self._whole.keep_entries([*range(self._above), *(self._above + entry for entry in entries)])

    def embed(self, tokens: Int[Tensor, "*B"]) -> Float[Tensor, "*B D"]:
        return self._whole.embed(tokens)

    def head(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        return self._whole.head(hidden)

    def codebook(self) -> Float[Tensor, "V d"]:
        return self._whole.codebook()

    def decode(self, tokens: Int[Tensor, "N P"]) -> UInt8[Tensor, "N 3 H W"]:
        raise NotImplementedError("a window has no pixels")

    def states(self, prompt: Prompt, tokens: Int[Tensor, "N P"]) -> Float[Tensor, "GN P D"]:
        raise NotImplementedError("a window has no whole images")
