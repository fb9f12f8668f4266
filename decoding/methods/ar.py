"""Plain autoregression: one exact token a forward."""

from jaxtyping import Bool
from torch import Tensor
from tqdm import tqdm

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


class WatchedAR(AR):
    """Autoregression that moves a bar, a token a step."""

    def __init__(self, bar: tqdm) -> None:
        super().__init__()
        self._bar = bar

    def propose(self, session: Session) -> bool:
        self._bar.update()
        return super().propose(session)
