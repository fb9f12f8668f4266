"""Lossless decoding in a window: drafts are refined together and final only as far as they are exact.

The window runs on from row to row. Each forward judges all of it: every draft is tested against its new law,
and all up to and including the first changed token are final, because nothing to the left of them changed.
The rest stays as drafts whose law is the one just computed.
"""

from abc import abstractmethod

from jaxtyping import Bool
from torch import Tensor

from decoding.methods.method import BlockMethod
from decoding.session import Session


class Window(BlockMethod):
    """At most as many forwards as autoregression, from the same law; a method says how the window is filled.

    Exact because what position j holds depends, given the tokens before it, on randomness of its own: when
    these are final, its draft follows `q`, and the test turns that into the exact law. It does not matter
    what a draft leans on: `q` is the law that it was drawn from.
    """

    lossless = True
    lockstep = False

    def __init__(self, window: int) -> None:
        """Takes the tokens fed a forward: one that is final, the others drafts."""
        self.window = window

    @abstractmethod
    def extend(self, session: Session, limit: int) -> None:
        """Drafts positions `session.end..limit`, or the first few of them."""

    def propose(self, session: Session) -> bool:
        size = session.grid.size
        if session.cached == session.committed < size:
            # The whole window stood, so the last forward left the exact law of the token after it.
            session.draw_next()
        if session.committed == size:
            return False
        limit = min(session.cached + self.window, size)
        if session.end < limit:
            self.extend(session, limit)
        return True

    def commit(self, session: Session, changed: Bool[Tensor, "N m"]) -> int:
        flags = changed[0].tolist()
        if True in flags:
            session.finalise(session.committed + flags.index(True) + 1)
            # The changed token is final, but what the cache holds there is the draft.
            return session.committed - 1
        session.finalise(session.end)
        return session.end
