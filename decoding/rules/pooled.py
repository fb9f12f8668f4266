"""LANTERN (arXiv 2410.03355) and LANTERN++ (arXiv 2502.06352): a draft stands for its codebook neighbours."""

from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from backbones.contract import Backbone
from decoding.kernel import residual
from decoding.options.rules import LanternPPRule, LanternRule
from decoding.rules.rule import Drafts, Rule

ROWS = 1024
"""Codes whose distances to all others are held at a time."""

_cache: WeakKeyDictionary[Backbone, dict[int, Int[Tensor, "V k"]]] = WeakKeyDictionary()
"""Neighbours of every code, by backbone and count; they depend on the weights alone."""


class Pooled(Rule):
    """The mass of the draft's neighbours counts as its own, nearest first, up to a bound.

    The target law becomes one in which the draft x has taken over the mass of A(x), the longest prefix of its
    neighbours whose mass stays within the bound. Both the test and the replacement use it, so what a
    rejection removes is x and A(x), not all the neighbours looked at.
    """

    def __init__(self, options: LanternRule | LanternPPRule) -> None:
        self.options = options
        nothing = options.bound == 0 if isinstance(options, LanternRule) else options.ratio == 1
        self.lossless = nothing or options.neighbours == 0

    def bind(self, backbone: Backbone) -> None:
        """Looks the neighbours up.

        Raises:
            RowcastError: if the backbone has no codebook.
        """
        kept = _cache.setdefault(backbone, {})
        count = min(self.options.neighbours, backbone.codes - 1)
        if count not in kept:
            kept[count] = nearest(backbone.codebook(), count)
        self._neighbours = kept[count] = kept[count].to(backbone.device)

    def ratio(self, drafts: Drafts) -> tuple[Float[Tensor, "*B"], Float[Tensor, "*B"]]:
        mass, pooled = self._pool(drafts)[1:]
        return drafts.of(drafts.p) + (mass * pooled).sum(-1), drafts.of(drafts.q)

    def leftover(self, drafts: Drafts) -> Float[Tensor, "*B V"]:
        return residual(self.target(drafts), drafts.q)

    def target(self, drafts: Drafts) -> Float[Tensor, "*B V"]:
        """The law by which the draft is judged: its pool's mass is all on it."""
        neighbours, mass, pooled = self._pool(drafts)
        law = drafts.p.scatter(-1, neighbours, mass.masked_fill(pooled, 0))
        whole = drafts.of(drafts.p) + (mass * pooled).sum(-1)
        return law.scatter_(-1, drafts.tokens[..., None], whole[..., None])

    def _pool(
        self, drafts: Drafts
    ) -> tuple[Int[Tensor, "*B k"], Float[Tensor, "*B k"], Bool[Tensor, "*B k"]]:
        """Neighbours of each draft, their target mass, and which of them are pooled."""
        neighbours = self._neighbours[drafts.tokens].long()
        mass = drafts.p.gather(-1, neighbours)
        if isinstance(self.options, LanternRule):
            bound = torch.full_like(mass[..., :1], self.options.bound)
        else:
            bound = (self.options.ratio - 1) * drafts.of(drafts.p)[..., None]
        return neighbours, mass, mass.cumsum(-1) <= bound


def nearest(codebook: Float[Tensor, "V d"], count: int) -> Int[Tensor, "V k"]:
    """The `count` codes nearest to each, itself left out, nearest first; in chunks of `ROWS` codes."""
    vectors = codebook.float()
    chunks = []
    for start in range(0, len(vectors), ROWS):
        distances = torch.cdist(vectors[start : start + ROWS], vectors)
        # Left out by place, not by distance: codebooks hold duplicates.
        distances.diagonal(start).fill_(float("inf"))
        chunks.append(distances.topk(count, largest=False).indices.int())
    return torch.cat(chunks)
