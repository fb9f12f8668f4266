"""Parallel Jacobi decoding (PJD, arXiv 2606.05703): speculative Jacobi decoding in several rows at once."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import one_hot

from decoding.advance import record
from decoding.clock import Clock
from decoding.kernel import sample
from decoding.methods.method import Method
from decoding.methods.rows import Front, Rows, emitted_by, finished, rows_of
from decoding.options.spatial import PJDOptions
from decoding.rules.rule import Drafts
from decoding.session import Session


class PJD(Method):
    """A row starts when the one above holds `context` tokens, and its drafts never overtake that one's.

    A draft sees the final tokens of earlier rows and all of its own row, not the drafts of other rows. Each
    row is judged as in speculative Jacobi decoding, up to its first rejected draft. Only in the topmost open
    row is that one replaced from the residual and final, and one token more where all drafts stood; in the
    others the place is drafted anew from the law just computed, and judged when there is more above it.

    Lossy, as final tokens did not see all of the row above. With a context of a whole row there is only the
    topmost row, and this is speculative Jacobi decoding in windows that end with the row: lossless.
    """

    name = "pjd"
    lossless = False
    lockstep = False

    def __init__(self, options: PJDOptions) -> None:
        self.window, self.context = options.window, options.context

    def propose(self, session: Session) -> bool:
        return not finished(session)

    def advance(self, session: Session, clock: Clock) -> None:
        rows = rows_of(session)
        top = next(row for row in range(rows.done, rows.next + 1) if not rows.full(row))
        fronts = [self._extend(rows, front, top) for front in rows.fronts(self.context)]
        q = _fill(session, fronts)
        clock.lap("draft")
        step = rows.feed(session, fronts)
        clock.lap("forward")
        self._judge(session, [front for front in fronts if front.emitted], session.law(step.logits), q)
        clock.lap("verify")

    def _extend(self, rows: Rows, front: Front, top: int) -> Front:
        """Sets drafts behind a front; the law after the last of them is of use if it lies in the row."""
        if not front.emitted:
            return front
        start, (row, col) = front.emitted.start, divmod(front.emitted.start, rows.cols)
        limit = rows.cols if row == top else rows.counts[row - 1]
        drafts = max(0, min(self.window - 1, limit - col))
        return replace(front, drafts=drafts, emitted=range(start, start + min(drafts + 1, rows.cols - col)))

    def _judge(
        self, session: Session, fronts: Sequence[Front], p: Float[Tensor, "N E V"], q: Float[Tensor, "N m V"]
    ) -> None:
        """Accepts drafts row by row, the topmost first, and draws all other places whose laws are known."""
        rows, emitted = rows_of(session), emitted_by(fronts)
        places = [place for front in fronts for place in front.drafted]
        drafted = set(places)
        at = [index for index, place in enumerate(emitted) if place in drafted]
        drafts = _drafts(session, fronts, p[:, at], q)
        accepted = self.rule.accept(drafts, session.uniform(len(places)))
        left, passed = self.rule.leftover(drafts), accepted[0].tolist()
        law, stays, e, d = p.clone(), [False] * len(emitted), 0, 0
        for front in fronts:
            stood = [*passed[d : d + front.drafts], False].index(False)
            gained = stood
            if front is fronts[0] and stood < len(front.emitted):
                gained += 1
                if stood < front.drafts:
                    law[:, stood] = left[:, stood]
            stays[e : e + stood] = [True] * stood
            row = front.emitted.start // rows.cols
            rows.counts[row] += gained
            session.memory[f"laws of row {row}"] = p[:, e + gained : e + len(front.emitted)]
            e, d = e + len(front.emitted), d + front.drafts
        drawn = sample(law, session.uniform(len(emitted)))
        session.tokens[:, emitted] = torch.where(
            torch.tensor(stays, device=p.device), session.tokens[:, emitted], drawn
        )
        _record(session, fronts, accepted, session.tokens[:, places] != drafts.tokens)


def _fill(session: Session, fronts: Sequence[Front]) -> Float[Tensor, "N m V"]:
    """Draws random codes where no drafts are left from the forward before; returns the laws of all drafts."""
    laws, codes = [session.q[:, :0]], session.backbone.codes
    for front in fronts:
        row = front.emitted.start // session.grid.cols
        carried = session.memory.pop(f"laws of row {row}", session.q[:, :0])[:, : front.drafts]
        fresh = front.drafted[carried.shape[1] :]
        tokens = (session.uniform(len(fresh)) * codes).long()
        session.tokens[:, fresh] = tokens
        session.labels[fresh.start : fresh.stop] = ["random"] * len(fresh)
        laws += [carried, one_hot(tokens, codes).float()]
    return torch.cat(laws, 1)


def _drafts(
    session: Session, fronts: Sequence[Front], p: Float[Tensor, "N m V"], q: Float[Tensor, "N m V"]
) -> Drafts:
    places = [place for front in fronts for place in front.drafted]
    order = [index for front in fronts for index in range(front.drafts)]
    age = [session.ages[place] for place in places]
    tokens = session.tokens[:, places]
    order, age = torch.tensor([order, age], dtype=torch.long, device=p.device).unsqueeze(1)
    return Drafts(p=p, q=q, tokens=tokens, order=order, age=age)


def _record(
    session: Session,
    fronts: Sequence[Front],
    accepted: Bool[Tensor, "N m"],
    changed: Bool[Tensor, "N m"],
) -> None:
    sizes = [front.drafts for front in fronts]
    for front, passed, moved in zip(fronts, accepted.split(sizes, 1), changed.split(sizes, 1), strict=True):
        record(session, front.emitted.start, passed, moved)
        # The place behind the drafts gets one by its own law.
        for place in front.emitted[front.drafts :]:
            session.labels[place] = "next"
