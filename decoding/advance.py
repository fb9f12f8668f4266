"""One step of a block of drafts: feed it, judge every draft by its new law, keep what is exact."""

from dataclasses import dataclass
from itertools import groupby
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from backbones.contract import Step
from decoding.clock import Clock
from decoding.generation import Round
from decoding.rules.rule import Drafts
from decoding.session import Session


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What becomes of the drafts of a block."""

    accepted: Bool[Tensor, "N m"]
    """Which drafts passed the test."""
    tokens: Int[Tensor, "N m"]
    """What stands in their places now."""
    laws: Float[Tensor, "N m V"]
    """What these count as drawn from."""


@runtime_checkable
class Judge(Protocol):
    """What a method decides about a block that was fed."""

    def judge(
        self, session: Session, drafts: Drafts, u_accept: Float[Tensor, "N m"], u_draw: Float[Tensor, "N m"]
    ) -> Verdict: ...

    def commit(self, session: Session, changed: Bool[Tensor, "N m"]) -> int: ...


def advance_block(session: Session, method: Judge, clock: Clock) -> None:
    """Feeds the block once and moves on by what the method decides."""
    step = session.backbone.forward(session.tokens[:, session.cached : session.end])
    session.trace.forwards += 1
    session.trace.fed += session.end - session.cached
    clock.lap("forward")
    changed = _judge(session, method, step)
    clock.lap("verify")
    _keep(session, step, method.commit(session, changed))
    session.steps += 1
    clock.lap("commit")


def _judge(session: Session, method: Judge, step: Step) -> Bool[Tensor, "N m"]:
    """Has every draft accepted or replaced by its new law; returns which tokens are others now."""
    start, end = session.committed, session.end
    count = end - start
    drafts = session.tokens[:, start:end]
    if count == 0:
        return torch.zeros_like(drafts, dtype=torch.bool)
    judged = Drafts(
        p=_laws(session, step),
        q=session.q,
        tokens=drafts,
        order=torch.arange(count, device=drafts.device)[None],
        age=torch.tensor([session.ages[start:end]], device=drafts.device),
    )
    u_accept, u_draw = session.uniform(2 * count).chunk(2, 1)
    verdict = method.judge(session, judged, u_accept, u_draw)
    changed = verdict.tokens != drafts
    record(session, start, verdict.accepted, changed)
    session.tokens[:, start:end] = verdict.tokens
    session.q = verdict.laws
    return changed


def _laws(session: Session, step: Step) -> Float[Tensor, "N m V"]:
    """The target laws of the drafts: THE shift between a forward's entries and the tokens they judge.

    Entry i, the output at position `cached + i`, is the law of position `cached + i + 1`; the law of
    position `cached` itself is known from the forward before.
    """
    first, last = session.committed - session.cached, session.end - session.cached
    if first > 0:
        return session.law(step.logits[:, first - 1 : last - 1])
    return torch.cat([session.next_law[:, None], session.law(step.logits[:, : last - 1])], 1)


def _keep(session: Session, step: Step, cached: int) -> None:
    """Keeps the first `cached` tokens in the cache, and the law of the position after them if it is open."""
    if not session.cached <= cached <= session.committed:
        raise ValueError(f"cannot keep {cached} tokens: {session.committed} are final, {session.cached} kept")
    start, end = session.cached, session.end
    session.states[:, start + 1 : end + 1] = step.hidden
    if start < cached == session.committed:
        session.next_law = session.law(step.logits[:, cached - start - 1 : cached - start])[:, 0]
    if cached < end:
        session.backbone.keep(cached)
    session.cached = cached


def record(session: Session, start: int, accepted: Bool[Tensor, "N m"], changed: Bool[Tensor, "N m"]) -> None:
    """Adds the round of the drafts from `start` on to the trace, an entry for each stretch of equal age."""
    first, end = start, start + accepted.shape[1]
    for age, drafts in groupby(session.ages[first:end]):
        stop = start + len(list(drafts))
        stretch = slice(start - first, stop - first)
        session.trace.rounds.append(
            Round(
                index=age,
                positions=torch.arange(start, stop),
                offsets=session.labels[start:stop],
                accepted=accepted[:, stretch],
                changed=changed[:, stretch],
            )
        )
        start = stop
    session.ages[first:end] = [age + 1 for age in session.ages[first:end]]
