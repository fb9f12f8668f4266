"""Correction: drafts beside a replaced token are brought up to date by the heads, without a forward."""

import torch
from jaxtyping import Int
from torch import Tensor

from decoding.advance import Judge, advance_block
from decoding.clock import Clock
from decoding.rules.rule import Drafts, Strict
from decoding.session import Session
from heads.bank import HeadBank

_RULE = Strict()


def advance_corrected(session: Session, method: Judge, clock: Clock, *, heads: HeadBank, passes: int) -> None:
    """One step of a block, and the correction of what it left; without passes the step alone."""
    if not passes:
        advance_block(session, method, clock)
        return
    judged = session.tokens.clone()
    advance_block(session, method, clock)
    correct(session, heads, judged, passes)
    clock.lap("draft")


def correct(session: Session, heads: HeadBank, judged: Int[Tensor, "N P"], passes: int) -> None:
    """Redraws every draft whose left neighbour in the row was replaced, from a corrected law.

    The redraw is the maximal coupling to that law, so that most drafts stay. A pass deals with what the one
    before replaced. Lossless decoding stays lossless: whether a draft is redrawn, and from which law, depends
    on the tokens before it and on their random numbers alone, and `q` becomes that law.

    Args:
        session: after a forward and its repairs; states and tokens of its drafts are brought up to date.
        heads: with a correction head, or at least h+1.
        judged: the tokens that the states lean on, which are those that were fed.
        passes: head calls at most.
    """
    first, backbone = session.committed, session.backbone
    if not (count := numbers(session, first, passes)):
        return
    # All at once, needed or not: what an image draws may not depend on its batch.
    draws = session.uniform(count).unflatten(1, (passes, 2, -1)).unbind(1)
    inside = torch.tensor(_inside(session, first), device=judged.device)
    for u in draws:
        places, mine, replaced = inside, u, session.tokens[:, inside - 1] != judged[:, inside - 1]
        if backbone.device.type == "cpu":
            # To look costs nothing here and saves work; an accelerator would have to be waited for.
            some = replaced.any(0)
            places, replaced, mine = inside[some], replaced[:, some], u[:, :, some]
            if not len(places):
                return
        left, branches = places - 1, (session.branches, 1, 1)
        states = heads.correct(
            session.states[:, places],
            session.states[:, left],
            backbone.embed(judged[:, left]).repeat(branches),
            backbone.embed(session.tokens[:, left]).repeat(branches),
        ).to(backbone.dtype)
        session.trace.head_calls += 1
        drafts = Drafts(
            p=session.law(backbone.head(states)),
            q=session.q[:, places - first],
            tokens=session.tokens[:, places],
            order=places[None] - first,
            age=torch.zeros_like(places)[None],
        )
        tokens = _RULE.repair(drafts, _RULE.accept(drafts, mine[:, 0]), mine[:, 1])
        judged = session.tokens.clone()
        session.tokens[:, places] = torch.where(replaced, tokens, drafts.tokens)
        session.q[:, places - first] = torch.where(replaced[..., None], drafts.p, drafts.q)
        session.states[:, places] = torch.where(
            replaced.repeat(session.branches, 1)[..., None], states, session.states[:, places]
        )


def numbers(session: Session, first: int, passes: int) -> int:
    """Random numbers that the correction of the drafts from `first` on takes."""
    return 2 * passes * len(_inside(session, first))


def _inside(session: Session, first: int) -> list[int]:
    """The drafts from `first` on that have a left neighbour in their row."""
    return [place for place in range(first, session.end) if place % session.grid.cols > 0]
