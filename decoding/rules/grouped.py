"""Grouped speculative decoding (GSD, arXiv 2508.07747): a draft is tested as a group of like tokens."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from backbones.contract import Backbone
from decoding.options.rules import GSDRule
from decoding.rules.rule import Drafts, Rule


class Grouped(Rule):
    """sum p / sum q over the tokens that lie around the draft in the order of p, and are near enough to it.

    Accepted, the draft itself stays, not a member of its group. A group is cut off at the ends of the order
    and always holds the draft. Lossy unless the group is the draft alone. The acceptance probability of a
    single draft may be below the strict one; on average over the drafts it is hardly ever.
    """

    def __init__(self, options: GSDRule) -> None:
        self.options = options
        self.lossless = options.group == 1

    def bind(self, backbone: Backbone) -> None:
        self._embed = backbone.embed

    def ratio(self, drafts: Drafts) -> tuple[Float[Tensor, "*B"], Float[Tensor, "*B"]]:
        members, itself, there = self._members(drafts)
        p, q = drafts.p.gather(-1, members), drafts.q.gather(-1, members)
        near = (p - drafts.of(drafts.p)[..., None]).abs() < self.options.probability
        if self.options.distance is not None and self.options.group > 1:
            embeddings = self._embed(members).float()
            center = self._embed(drafts.tokens).float()[..., None, :]
            near &= (embeddings - center).square().sum(-1) < self.options.distance
        group = there & (near | itself)
        return (p * group).sum(-1), (q * group).sum(-1)

    def _members(
        self, drafts: Drafts
    ) -> tuple[Int[Tensor, "*B g"], Bool[Tensor, " g"], Bool[Tensor, "*B g"]]:
        """The tokens at the ranks around each draft's, which of them is the draft, and which ranks exist.

        With an even group the odd one is less likely than the draft.
        """
        order = drafts.p.sort(dim=-1, descending=True, stable=True).indices
        rank = (order == drafts.tokens[..., None]).to(torch.uint8).argmax(-1)
        steps = torch.arange(self.options.group, device=rank.device) - (self.options.group - 1) // 2
        ranks = rank[..., None] + steps
        codes = order.shape[-1]
        return order.gather(-1, ranks.clamp(0, codes - 1)), steps == 0, (ranks >= 0) & (ranks < codes)
