"""A backbone that is a table of laws, one for every prefix: whole images in a millisecond, no trunk."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from backbones.contract import Prompt, Sampling, Step
from tests.backbones.coordinates import CoordinateBackbone


class TableBackbone(CoordinateBackbone):
    """A state is the logits of the token that it emits; prefixes are the nodes of a `codes`-ary tree."""

    def __init__(self, rows: int, cols: int, codes: int, seed: int = 0) -> None:
        super().__init__(rows, cols)
        self.codes = self.width = codes
        self.sampling = Sampling(guidance=1.0)
        nodes = sum(codes**length for length in range(rows * cols + 1))
        self.table = 2 * torch.randn(nodes, codes, generator=torch.Generator().manual_seed(seed))

    def begin(self, prompt: Prompt) -> Step:
        self._places = []
        self._path = torch.zeros(prompt.images, 1, dtype=torch.long)
        return self._at(self._path)

    def forward(self, tokens: Int[Tensor, "N T"]) -> Step:
        start = self._raster()
        self._path = self._walk(self._path[:, : start + 1], tokens)
        self._places = list(range(start + tokens.shape[1]))
        return self._at(self._path[:, start + 1 :])

    def forward_at(
        self, tokens: Int[Tensor, "N T"], places: Sequence[int], sees: Bool[Tensor, "T E"]
    ) -> Step:
        """An entry's node follows from the last one that it sees, which must be the place before it."""
        super().forward_at(tokens, places, sees)
        old = self._path.shape[1] - 1
        for index, (place, token) in enumerate(zip(places, tokens.T, strict=True)):
            seen = [e for e in range(old + index) if sees[index, e]]
            if sorted(self._places[e] for e in seen) != list(range(place)):
                raise ValueError(f"the table has no law for a gap before place {place}")
            parent = max(seen, key=lambda entry: self._places[entry], default=-1)
            node = self._path[:, parent + 1] * self.codes + 1 + token
            self._path = torch.cat([self._path, node[:, None]], 1)
        return self._at(self._path[:, old + 1 :])

    def keep(self, length: int) -> None:
        super().keep(length)
        self._path = self._path[:, : length + 1]

    def keep_entries(self, entries: Sequence[int]) -> None:
        super().keep_entries(entries)
        self._path = self._path[:, [0, *(entry + 1 for entry in entries)]]

    def embed(self, tokens: Int[Tensor, "*B"]) -> Float[Tensor, "*B D"]:
        return torch.eye(self.codes)[tokens]

    def head(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        return hidden

    def states(self, prompt: Prompt, tokens: Int[Tensor, "N P"]) -> Float[Tensor, "GN P D"]:
        return self.table[self._walk(torch.zeros(len(tokens), 1, dtype=torch.long), tokens)[:, :-1]]

    def _walk(self, path: Tensor, tokens: Tensor) -> Tensor:
        for token in tokens.T:
            path = torch.cat([path, path[:, -1:] * self.codes + 1 + token[:, None]], 1)
        return path

    def _at(self, nodes: Tensor) -> Step:
        return Step(hidden=self.table[nodes], logits=self.table[nodes])
