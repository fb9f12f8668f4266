"""Relaxed tests that raise the acceptance probability min(1, p(x)/q(x)) of a draft by a closed form.

All replace a rejected draft from the residual of the strict test, which is the nearest to the target law
that a higher acceptance leaves possible (arXiv 2601.09212, proposition 1). Lossy unless said otherwise.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from decoding.options.rules import AdditionRule, AmplifyRule, CoolSDRule, CSDRule
from decoding.rules.rule import Drafts, Rule

HOTTEST = 1e6
"""Largest factor of an annealed test: accepts whatever has mass, and cannot overflow."""


class Additive(Rule):
    """p/q + epsilon: a draft of any probability has a chance of epsilon."""

    def __init__(self, options: AdditionRule) -> None:
        self.options = options
        self.lossless = options.epsilon == 0

    def ratio(self, drafts: Drafts) -> tuple[Float[Tensor, "*B"], Float[Tensor, "*B"]]:
        p, q = drafts.of(drafts.p), drafts.of(drafts.q)
        return p + self.options.epsilon * q, q


class Amplified(Rule):
    """k p/q."""

    def __init__(self, options: AmplifyRule) -> None:
        self.options = options
        self.lossless = options.factor == 1

    def ratio(self, drafts: Drafts) -> tuple[Float[Tensor, "*B"], Float[Tensor, "*B"]]:
        return self.options.factor * drafts.of(drafts.p), drafts.of(drafts.q)


class Entropic(Rule):
    """p/q + weight H(p) where TV(p, q) is below a threshold, p/q elsewhere (CSD).

    The paper's letters are the other way round, and it does not say whether H is normalised.
    """

    def __init__(self, options: CSDRule) -> None:
        self.options = options
        self.lossless = options.weight == 0 or options.threshold == 0

    def ratio(self, drafts: Drafts) -> tuple[Float[Tensor, "*B"], Float[Tensor, "*B"]]:
        p, q = drafts.of(drafts.p), drafts.of(drafts.q)
        entropy = torch.special.entr(drafts.p).sum(-1)
        if self.options.normalise == "log_k":
            entropy = entropy / (drafts.p > 0).sum(-1).clamp(min=2).log()
        near = (drafts.p - drafts.q).abs().sum(-1) / 2 < self.options.threshold
        return p + self.options.weight * entropy * near * q, q


class Annealed(Rule):
    """omega p/q with omega = max(1, scale exp(-decay i)) (Cool-SD).

    The paper writes delta exp(-nu i - mu); exp(-mu) is part of `scale` here. The floor of 1 is ours: below
    it the test would be stricter than the strict one, whose residual is then no longer the right one.
    """

    def __init__(self, options: CoolSDRule) -> None:
        self.options = options
        self.lossless = options.scale <= 1 and options.decay >= 0

    def ratio(self, drafts: Drafts) -> tuple[Float[Tensor, "*B"], Float[Tensor, "*B"]]:
        index = drafts.order if self.options.by == "place" else drafts.age
        omega = self.options.scale * torch.exp(-self.options.decay * index)
        return omega.clamp(1, HOTTEST) * drafts.of(drafts.p), drafts.of(drafts.q)
