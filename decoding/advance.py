"""One step of a block of drafts: feed it, judge every draft by its new law, keep what is exact."""

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


@runtime_checkable
class Judge(Protocol):
    """What a method decides about a block that was fed."""

    def accept(self, drafts: Drafts, u: Float[Tensor, "N m"]) -> Bool[Tensor, "N m"]: ...

    def repair(
        self, drafts: Drafts, accepted: Bool[Tensor, "N m"], u: Float[Tensor, "N m"]
    ) -> Int[Tensor, "N m"]: ...

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
    """Accepts or repairs every draft by its new law, which then is the law that it was drawn from."""
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
    accepted = method.accept(judged, u_accept)
    tokens = method.repair(judged, accepted, u_draw)
    changed = tokens != drafts
    _record(session, accepted, changed)
    session.tokens[:, start:end] = tokens
    session.q = judged.p
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


def _record(session: Session, accepted: Bool[Tensor, "N m"], changed: Bool[Tensor, "N m"]) -> None:
    """Adds the round to the trace, one entry for each stretch of drafts of the same age."""
    block = slice(session.committed, session.end)
    start = session.committed
    for age, drafts in groupby(session.ages[block]):
        stop = start + len(list(drafts))
        stretch = slice(start - session.committed, stop - session.committed)
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
    session.ages[block] = [age + 1 for age in session.ages[block]]
