"""Spatially Speculative Decoding: draft whole rows from the rows above, refine them together, commit them."""

from dataclasses import replace

from jaxtyping import Bool, Float
from torch import Tensor

from backbones.errors import RowcastError
from decoding.advance import Verdict
from decoding.clock import Clock
from decoding.methods.correct import advance_corrected, numbers
from decoding.methods.draft import draft
from decoding.methods.method import BlockMethod
from decoding.methods.schedule import schedule
from decoding.options.ssd import SSDOptions
from decoding.rules import build_rule
from decoding.rules.rule import Drafts
from decoding.session import Session
from heads.bank import HeadBank


class SSD(BlockMethod):
    """A fixed number of forwards an image (arXiv 2606.20543), or fewer where rounds may stop early.

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
        self.rule = build_rule(options.rule)

    def propose(self, session: Session) -> bool:
        steps = schedule(session.grid, self.options)
        if session.steps == len(steps):
            session.finalise(session.end)
            return False
        step = steps[session.steps]
        if step.exact:
            session.draw_next()
        if step.sources:
            draft(session, self.heads, step.sources)
        session.finalise(step.final)
        return True

    def advance(self, session: Session, clock: Clock) -> None:
        advance_corrected(session, self, clock, heads=self.heads, passes=self.options.corrections)

    def judge(
        self, session: Session, drafts: Drafts, u_accept: Float[Tensor, "N m"], u_draw: Float[Tensor, "N m"]
    ) -> Verdict:
        if self.options.adaptive == "distance":
            apart = (drafts.p - drafts.q).abs().sum(-1) / 2
            session.memory["distance"] = apart.mean(1).max()
        return super().judge(session, drafts, u_accept, u_draw)

    def commit(self, session: Session, changed: Bool[Tensor, "N m"]) -> int:
        steps = schedule(session.grid, self.options)
        step = steps[session.steps]
        if self.options.early_stop and step.left and not changed.any():
            # The rounds left out would draw these numbers: with them gone the image stays the same.
            block = steps[session.steps : session.steps + 1 + step.left]
            session.uniform(sum(2 * (session.end - later.final) for later in block[1:]))
            session.uniform(sum(numbers(session, later.final, self.options.corrections) for later in block))
            session.steps += step.left
            session.finalise(session.end)
            return session.end
        if step.repeats and self._settled(session, changed):
            session.steps += step.repeats
        return step.cached

    def _settled(self, session: Session, changed: Bool[Tensor, "N m"]) -> bool:
        """Whether the rounds may end here; a look at the device."""
        match self.options.adaptive:
            case "changed":
                measure = changed.float().mean(1).max()
            case "distance":
                measure = session.memory["distance"]
            case _:
                return False
        return bool(measure <= self.options.threshold)
