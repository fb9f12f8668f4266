"""1-D multi-token prediction, the rival with SSD's heads but one dimension: t+1 to t+k along the raster."""

from dataclasses import replace

from jaxtyping import Bool
from torch import Tensor

from backbones.contract import Grid
from backbones.errors import RowcastError
from decoding.methods.draft import Source, draft
from decoding.methods.method import BlockMethod
from decoding.methods.schedule import Step, schedule
from decoding.methods.window import Window
from decoding.options.drafters import MTPOptions, MTPStrictOptions
from decoding.options.ssd import SSDOptions
from decoding.session import Session
from heads.bank import MTPBank
from heads.offsets import Ahead, Offset


class MTP(BlockMethod):
    """Blocks of k drafts, each refined for a fixed number of rounds and final after them.

    Not lossless: after r rounds only the first r drafts of a block follow the backbone's law. This is the
    setting of the 1-D baseline in the paper of SSD (arXiv 2606.20543), as far as its quality tells.
    """

    name = "mtp"
    lossless = False

    def __init__(self, options: MTPOptions, heads: MTPBank) -> None:
        """Pairs a schedule with the heads that draft for it.

        Raises:
            RowcastError: if a block is longer than the heads reach.
        """
        self.options = replace(options, block=reach(options.block, heads))
        self.heads = heads

    def propose(self, session: Session) -> bool:
        steps = self._steps(session.grid)
        if session.steps == len(steps):
            return False
        step = steps[session.steps]
        if step.exact:
            session.draw_next()
        if step.sources:
            draft(session, self.heads, [_along(source) for source in step.sources])
        session.finalise(step.final)
        return True

    def commit(self, session: Session, changed: Bool[Tensor, "N m"]) -> int:
        return self._steps(session.grid)[session.steps].cached

    def _steps(self, grid: Grid) -> tuple[Step, ...]:
        return schedule(Grid(rows=1, cols=grid.size), SSDOptions(first_row=self.options))


class MTPStrict(Window):
    """k drafts a forward: those before the first rejection stay, one more token is drawn exactly. Lossless.

    Speculative sampling as it is done with text (arXiv 2211.17192): what follows the first rejected draft is
    thrown away, and the next drafts start from the exact state behind it.
    """

    name = "mtp_strict"

    def __init__(self, options: MTPStrictOptions, heads: MTPBank) -> None:
        """Pairs a window with the heads that fill it.

        Raises:
            RowcastError: if the window is longer than the heads reach.
        """
        self.block = reach(options.block, heads)
        super().__init__(self.block + 1)
        self.heads = heads

    def propose(self, session: Session) -> bool:
        session.end, session.q = session.committed, session.q[:, :0]
        return super().propose(session)

    def extend(self, session: Session, limit: int) -> None:
        last = session.cached
        steps = range(1, limit - last)
        draft(session, self.heads, [Source(offset=Ahead(step), start=last, stop=last + 1) for step in steps])


def _along(source: Source) -> Source:
    """A step along the one row as a step along the raster."""
    assert isinstance(source.offset, Offset)
    return replace(source, offset=Ahead(source.offset.right))


def reach(block: int | None, heads: MTPBank) -> int:
    """The length of a block; none is all that the heads draft.

    Raises:
        RowcastError: if the heads do not reach so far.
    """
    if block is not None and block > heads.ahead:
        raise RowcastError(
            f"expected decoder.block 1 to {heads.ahead}, found {block}: the draft heads reach {heads.ahead} "
            f"tokens; set decoder.block={heads.ahead}"
        )
    return block or heads.ahead
