"""Plain autoregression: one exact token a forward."""

from jaxtyping import Bool
from torch import Tensor

from decoding.methods.method import BlockMethod
from decoding.session import Session


class AR(BlockMethod):
    """The baseline: P forwards, as the prefill emits token 0 and the last token is never fed."""

    name = "ar"
    lossless = True

    def propose(self, session: Session) -> bool:
        session.draw_next()
        return session.committed < session.grid.size

    def commit(self, session: Session, changed: Bool[Tensor, "N m"]) -> int:
        return session.end
