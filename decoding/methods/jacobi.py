"""Speculative Jacobi decoding, the training-free rivals: a window of random tokens, refined together.

`sjd` (arXiv 2410.01699) draws everything after the first rejection anew from the law just computed;
`mc_sjd` (arXiv 2510.24211) couples it to that law instead, so that most of it stays.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from decoding.kernel import sample
from decoding.methods.window import Window
from decoding.rules.rule import Drafts
from decoding.session import Session


class MCSJD(Window):
    """Maximal-coupling speculative Jacobi decoding: the default test and repair at every position."""

    name = "mc_sjd"

    def extend(self, session: Session, limit: int) -> None:
        """Any fixed token is a valid draft of a law that knows nothing else; these are uniformly random."""
        codes = session.backbone.codes
        tokens = (session.uniform(limit - session.end) * codes).long()
        session.place(
            tokens, torch.nn.functional.one_hot(tokens, codes).float(), ["random"] * tokens.shape[1]
        )


class SJD(MCSJD):
    """Speculative Jacobi decoding."""

    name = "sjd"

    def repair(
        self, drafts: Drafts, accepted: Bool[Tensor, "N m"], u: Float[Tensor, "N m"]
    ) -> Int[Tensor, "N m"]:
        rejected = (~accepted).int()
        after_the_first = rejected.cumsum(1) - rejected > 0
        return torch.where(after_the_first, sample(drafts.p, u), super().repair(drafts, accepted, u))
