"""Spatially Speculative Decoding: draft whole rows from the rows above, refine them together, commit them."""

from dataclasses import replace

from jaxtyping import Bool
from torch import Tensor

from backbones.errors import RowcastError
from decoding.methods.draft import draft
from decoding.methods.method import Method
from decoding.methods.schedule import schedule
from decoding.options.ssd import SSDOptions
from decoding.session import Session
from heads.bank import HeadBank


class SSD(Method):
    """A fixed number of forwards an image (arXiv 2606.20543).

    Not lossless: after k rounds the first k drafts of a block follow the backbone's law, the later ones
    only nearly. (With as many rounds as a block has drafts it would be exact.)
    """

    name = "ssd"
    lossless = False

    def __init__(self, options: SSDOptions, heads: HeadBank) -> None:
        """Pairs a schedule with the heads that draft for it.

        Raises:
            RowcastError: if the schedule needs heads that the bank lacks.
        """
        block = options.first_row.block or heads.horizontal
        if block > heads.horizontal:
            raise RowcastError(
                f"expected decoder.first_row.block 1 to {heads.horizontal}, found {block}: "
                f"the draft heads reach {heads.horizontal} tokens; "
                f"set decoder.first_row.block={heads.horizontal}"
            )
        if options.rows > heads.vertical:
            raise RowcastError(
                f"expected decoder.rows 1 to {heads.vertical}, found {options.rows}: the draft heads reach "
                f"{heads.vertical} rows down; set decoder.rows={heads.vertical} or train with "
                f"heads.vertical={options.rows}"
            )
        self.options = replace(options, first_row=replace(options.first_row, block=block))
        self.heads = heads

    def propose(self, session: Session) -> bool:
        steps = schedule(session.grid, self.options)
        if session.steps == len(steps):
            return False
        step = steps[session.steps]
        if step.exact:
            session.draw_next()
        if step.sources:
            draft(session, self.heads, step.sources)
        session.finalise(step.final)
        return True

    def commit(self, session: Session, changed: Bool[Tensor, "N m"]) -> int:
        return schedule(session.grid, self.options)[session.steps].cached
