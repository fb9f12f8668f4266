"""What a test of drafts is, and the strict one that keeps the backbone's law."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from backbones.contract import Backbone
from decoding.kernel import residual, sample


@dataclass(frozen=True, kw_only=True)
class Drafts:
    """Drafts to be judged, and what a rule may look at; `*B` is any batch of them."""

    p: Float[Tensor, "*B V"]
    """Target laws."""
    q: Float[Tensor, "*B V"]
    """Laws that the drafts were drawn from."""
    tokens: Int[Tensor, "*B"]
    order: Int[Tensor, "*#B"]
    """Place in the block: 0 for the draft that comes first."""
    age: Int[Tensor, "*#B"]
    """Rounds that each has been through before."""

    def of(self, law: Float[Tensor, "*B V"]) -> Float[Tensor, "*B"]:
        """What a law gives the drafted tokens."""
        return law.gather(-1, self.tokens[..., None])[..., 0]


class Rule(ABC):
    """Accepts a draft x with probability min(1, numerator / denominator), else draws from `leftover`.

    Stated as a pair and compared by multiplication, so that q(x) = 0 needs no special case and NaN cannot
    arise. Pure functions of `Drafts`, vectorised.
    """

    lossless: bool
    """Whether the repaired token follows `p` exactly when the draft follows `q`."""

    def bind(self, backbone: Backbone) -> None:  # noqa: B027
        """Takes what it needs from the backbone (a codebook); called once before the first draft."""

    @abstractmethod
    def ratio(self, drafts: Drafts) -> tuple[Float[Tensor, "*B"], Float[Tensor, "*B"]]:
        """Numerator and denominator of the acceptance probability."""

    def accept(self, drafts: Drafts, u: Float[Tensor, "*B"]) -> Bool[Tensor, "*B"]:
        """Which drafts stay."""
        numerator, denominator = self.ratio(drafts)
        return u * denominator < numerator

    def leftover(self, drafts: Drafts) -> Float[Tensor, "*B V"]:
        """The law of the replacement of a rejected draft."""
        return residual(drafts.p, drafts.q)

    def repair(
        self, drafts: Drafts, accepted: Bool[Tensor, "*B"], u: Float[Tensor, "*B"]
    ) -> Int[Tensor, "*B"]:
        """The tokens after the test."""
        return torch.where(accepted, drafts.tokens, sample(self.leftover(drafts), u))


class Strict(Rule):
    """Speculative sampling: min(1, p(x)/q(x)), and the residual of p over q.

    The maximal coupling: if x follows q then the result follows p, and it equals x with probability
    1 - TV(p, q), the largest possible.
    """

    lossless = True

    def ratio(self, drafts: Drafts) -> tuple[Float[Tensor, "*B"], Float[Tensor, "*B"]]:
        return drafts.of(drafts.p), drafts.of(drafts.q)
