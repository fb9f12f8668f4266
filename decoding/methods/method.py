"""What a decoder decides: four small decisions, the rest is the engine's."""

from abc import ABC, abstractmethod

from jaxtyping import Bool, Float, Int
from torch import Tensor

from decoding import kernel
from decoding.session import Session


class Method(ABC):
    """One decoder. It holds settings only: everything about the images lives in the session.

    The defaults of `accept` and `repair` are the maximal coupling, exact for any draft law.
    """

    name: str
    lossless: bool
    """Whether its images follow the backbone's own law exactly."""

    lockstep: bool = True
    """Whether images of a batch move together; if not, they are painted one at a time."""

    @abstractmethod
    def propose(self, session: Session) -> bool:
        """Adds drafts, or finalises tokens, before a forward; False when no forward is needed any more."""

    def accept(
        self,
        p: Float[Tensor, "N m V"],
        q: Float[Tensor, "N m V"],
        tokens: Int[Tensor, "N m"],
        u: Float[Tensor, "N m"],
    ) -> Bool[Tensor, "N m"]:
        """Which drafts stay; pure."""
        return kernel.accept(p, q, tokens, u)

    def repair(
        self,
        p: Float[Tensor, "N m V"],
        q: Float[Tensor, "N m V"],
        tokens: Int[Tensor, "N m"],
        accepted: Bool[Tensor, "N m"],
        u: Float[Tensor, "N m"],
    ) -> Int[Tensor, "N m"]:
        """The tokens after the round; pure. Afterwards their law counts as `p`."""
        return kernel.repair(p, q, tokens, accepted, u)

    @abstractmethod
    def commit(self, session: Session, changed: Bool[Tensor, "N m"]) -> int:
        """Finalises what the round settled; returns how many tokens may stay in the cache.

        Only final tokens may: what was fed as a draft and changed afterwards has to be fed again.
        """
