"""What a decoder is, and the four small decisions of those whose drafts are one block."""

from abc import ABC, abstractmethod

from jaxtyping import Bool, Float, Int
from torch import Tensor

from decoding.advance import Verdict, advance_block
from decoding.clock import Clock
from decoding.rules.rule import Drafts, Rule, Strict
from decoding.session import Session


class Method(ABC):
    """One decoder. It holds settings only: everything about the images lives in the session."""

    name: str
    lossless: bool
    """Whether its images follow the backbone's own law exactly."""

    lockstep: bool = True
    """Whether images of a batch move together; if not, they are painted one at a time."""

    rule: Rule = Strict()
    """How drafts are tested and what replaces them; the default is exact for any draft law."""

    @abstractmethod
    def propose(self, session: Session) -> bool:
        """Adds drafts, or finalises tokens, before a forward; False when no forward is needed any more."""

    @abstractmethod
    def advance(self, session: Session, clock: Clock) -> None:
        """One forward and what follows from it."""


class BlockMethod(Method):
    """A decoder that feeds the positions after the cache in one block: `tokens[cached:end]`."""

    def advance(self, session: Session, clock: Clock) -> None:
        advance_block(session, self, clock)

    def judge(
        self, session: Session, drafts: Drafts, u_accept: Float[Tensor, "N m"], u_draw: Float[Tensor, "N m"]
    ) -> Verdict:
        """Accepts or repairs every draft of a block, whose law then is `p`."""
        accepted = self.accept(drafts, u_accept)
        return Verdict(accepted=accepted, tokens=self.repair(drafts, accepted, u_draw), laws=drafts.p)

    def accept(self, drafts: Drafts, u: Float[Tensor, "N m"]) -> Bool[Tensor, "N m"]:
        """Which drafts stay; pure."""
        return self.rule.accept(drafts, u)

    def repair(
        self, drafts: Drafts, accepted: Bool[Tensor, "N m"], u: Float[Tensor, "N m"]
    ) -> Int[Tensor, "N m"]:
        """The tokens after the round; pure."""
        return self.rule.repair(drafts, accepted, u)

    @abstractmethod
    def commit(self, session: Session, changed: Bool[Tensor, "N m"]) -> int:
        """Finalises what the round settled; returns how many tokens may stay in the cache.

        Only final tokens may: what was fed as a draft and changed afterwards has to be fed again.
        """
