"""Lossless spatially speculative decoding: the drafts of SSD (arXiv 2606.20543) in a lossless window."""

from backbones.contract import Grid
from backbones.errors import RowcastError
from decoding.clock import Clock
from decoding.methods.correct import advance_corrected
from decoding.methods.draft import Source, draft
from decoding.methods.window import Window
from decoding.options.ssd import SSDExactOptions
from decoding.rules import build_rule
from decoding.session import Session
from heads.bank import HeadBank
from heads.offsets import Offset

DOWN = Offset(down=1, right=0)


class SSDExact(Window):
    """Trained spatial drafts, from provisional states where there are no final ones yet.

    Where a forward replaced a token, the heads then correct the drafts to its right (`correct`).
    """

    name = "ssd_exact"

    def __init__(self, options: SSDExactOptions, heads: HeadBank) -> None:
        """Pairs a window with the heads that fill it.

        Raises:
            RowcastError: if the bank has no horizontal or no vertical head.
        """
        super().__init__(options.window)
        if min(heads.horizontal, heads.vertical) < 1:
            raise RowcastError(
                f"expected draft heads h+1 and v+1, found {heads.horizontal} horizontal and {heads.vertical} "
                "vertical: train with heads.horizontal=5 heads.vertical=1"
            )
        self.heads, self.corrections = heads, options.corrections
        self.rule = build_rule(options.rule)
        self.lossless = self.rule.lossless

    def advance(self, session: Session, clock: Clock) -> None:
        advance_corrected(session, self, clock, heads=self.heads, passes=self.corrections)

    def extend(self, session: Session, limit: int) -> None:
        sources = draft_sources(
            session.grid, self.heads.horizontal, session.end, limit, columns=self.heads.columns(DOWN)
        )
        if sources:
            draft(session, self.heads, sources)


def draft_sources(grid: Grid, reach: int, end: int, limit: int, *, columns: int = 1) -> tuple[Source, ...]:
    """What drafts positions `end..limit`, as far as the tokens before `end` and their states reach.

    The first row is drafted from its last token, every other cell from the one above it.

    Args:
        grid: token grid.
        reach: how many tokens the heads see to the right.
        end: first position without a token, 1 or more.
        limit: end of the window, at most P.
        columns: cells that the vertical head reads; with 3, the right neighbour of the one above is known.
    """
    below = max(end, min(limit, grid.cols, end + reach))
    sources = [
        Source(offset=Offset(down=0, right=step), start=end - 1, stop=end)
        for step in range(1, below - end + 1)
    ]
    # The last known token has no known right neighbour, unless it ends its row.
    known = end - (columns == 3 and end % grid.cols > 0)
    stop = min(limit, known + grid.cols)
    if grid.cols <= below < stop:
        sources.append(Source(offset=DOWN, start=below - grid.cols, stop=stop - grid.cols))
    return tuple(sources)
