"""Lossless spatially speculative decoding: SSD's drafts and repair, committed only as far as they are exact.

A window of drafts runs on from row to row. Each forward judges all of it: every draft is coupled to its new
law (as in SSD, arXiv 2606.20543), and all up to and including the first changed token are final, because
nothing to the left of them changed. The rest stays as drafts whose law is the one just computed.
"""

from jaxtyping import Bool
from torch import Tensor

from backbones.contract import Grid
from backbones.errors import RowcastError
from decoding.methods.draft import Source, draft
from decoding.methods.method import Method
from decoding.methods.options import SSDExactOptions
from decoding.session import Session
from heads.bank import HeadBank
from heads.offsets import Offset


class SSDExact(Method):
    """At most as many forwards as autoregression, from the same law.

    Exact because what position j holds depends, given the tokens before it, on randomness of its own: when
    these are final, its draft follows `q`, and the coupling turns that into the exact law. It does not matter
    that drafts lean on provisional states and tokens: `q` is the law they were drawn from.
    """

    name = "ssd_exact"
    lossless = True
    lockstep = False

    def __init__(self, options: SSDExactOptions, heads: HeadBank) -> None:
        """Pairs a window with the heads that fill it.

        Raises:
            RowcastError: if the bank has no horizontal or no vertical head.
        """
        if min(heads.horizontal, heads.vertical) < 1:
            raise RowcastError(
                f"expected draft heads h+1 and v+1, found {heads.horizontal} horizontal and {heads.vertical} "
                "vertical: train with heads.horizontal=5 heads.vertical=1"
            )
        self.options = options
        self.heads = heads

    def propose(self, session: Session) -> bool:
        size = session.grid.size
        if session.cached == session.committed < size:
            # The whole window stood, so the last forward left the exact law of the token after it.
            session.draw_next()
        if session.committed == size:
            return False
        limit = min(session.cached + self.options.window, size)
        sources = draft_sources(session.grid, self.heads.horizontal, session.end, limit)
        if sources:
            draft(session, self.heads, sources)
        return True

    def commit(self, session: Session, changed: Bool[Tensor, "N m"]) -> int:
        flags = changed[0].tolist()
        if True in flags:
            session.finalise(session.committed + flags.index(True) + 1)
            # The changed token is final, but what the cache holds there is the draft.
            return session.committed - 1
        session.finalise(session.end)
        return session.end


def draft_sources(grid: Grid, reach: int, end: int, limit: int) -> tuple[Source, ...]:
    """What drafts positions `end..limit`, as far as the tokens before `end` and their states reach.

    The first row is drafted from its last token, every other cell from the one above it.

    Args:
        grid: token grid.
        reach: how many tokens the heads see to the right.
        end: first position without a token, 1 or more.
        limit: end of the window, at most P.
    """
    below = max(end, min(limit, grid.cols, end + reach))
    sources = [
        Source(offset=Offset(down=0, right=step), start=end - 1, stop=end)
        for step in range(1, below - end + 1)
    ]
    stop = min(limit, end + grid.cols)
    if grid.cols <= below < stop:
        sources.append(Source(offset=Offset(down=1, right=0), start=below - grid.cols, stop=stop - grid.cols))
    return tuple(sources)
