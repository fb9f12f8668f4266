"""The one loop behind every decoder.

A method proposes a block, one forward feeds it, the shift pairs each law with the token it judges, the method
accepts and repairs, and says how much is final and how much of the cache stays.
"""

from collections.abc import Sequence
from itertools import groupby

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from backbones.contract import Backbone, Sampling, Step
from backbones.errors import RowcastError
from decoding.clock import Clock
from decoding.generation import Generation, Round
from decoding.methods.method import Method
from decoding.noise import Noise
from decoding.session import Session
from decoding.warp import Warp


def generate(
    backbone: Backbone,
    prompts: Sequence[str],
    method: Method,
    noise: Noise,
    sampling: Sampling | None = None,
    *,
    synchronize: bool = False,
) -> Generation:
    """Paints one image a prompt.

    Args:
        backbone: the frozen generator; its open session is replaced.
        prompts: N texts.
        method: the decoder.
        noise: the images' random streams, one a prompt.
        sampling: how laws are made; none takes the backbone's official settings. Guidance 1 leaves the
            unconditional branch out.
        synchronize: on an accelerator, wait at every phase edge so that the phase times are true.

    Raises:
        RowcastError: if `noise` is for another number of images, if there are several and the method's
            progress depends on the image, or if a prompt or setting is refused.
    """
    sampling = sampling or backbone.sampling
    if len(prompts) != noise.images:
        raise RowcastError(
            f"expected noise for {len(prompts)} images, found {noise.images}: open Noise on the same prompts"
        )
    if len(prompts) > 1 and not method.lockstep:
        raise RowcastError(
            f"expected one image at a time for decoder {method.name}, found {len(prompts)}: set batch=1"
        )
    clock = Clock(backbone.device, synchronize)
    with torch.inference_mode():
        warp = Warp(sampling)
        prompt = backbone.encode(prompts, guided=sampling.guidance != 1)
        clock.lap("other")
        first = backbone.begin(prompt)
        session = Session(backbone, warp, noise, len(prompt.mask) // len(prompts), first)
        clock.lap("prefill")
        while method.propose(session):
            clock.lap("draft")
            _advance(session, method, clock)
        clock.lap("draft")
        _check_finite(session)
    session.trace.seconds = clock.stop()
    # A copy made outside inference mode may enter autograd later.
    return Generation(tokens=session.tokens.clone(), trace=session.trace)


def _advance(session: Session, method: Method, clock: Clock) -> None:
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


def _check_finite(session: Session) -> None:
    """One look at the end: a state that overflowed gives laws of NaN, which draw code 0 and nothing else."""
    if not session.states[:, : session.cached + 1].isfinite().all():
        raise RowcastError(
            f"expected finite states, found NaN or infinity in {session.backbone.name} at "
            f"{session.backbone.dtype}: set model.dtype=float32"
        )


def _judge(session: Session, method: Method, step: Step) -> Bool[Tensor, "N m"]:
    """Accepts or repairs every draft by its new law, which then is the law that it was drawn from."""
    start, end = session.committed, session.end
    count = end - start
    drafts = session.tokens[:, start:end]
    if count == 0:
        return torch.zeros_like(drafts, dtype=torch.bool)
    p = _laws(session, step)
    u_accept, u_draw = session.uniform(2 * count).chunk(2, 1)
    accepted = method.accept(p, session.q, drafts, u_accept)
    tokens = method.repair(p, session.q, drafts, accepted, u_draw)
    changed = tokens != drafts
    _record(session, accepted, changed)
    session.tokens[:, start:end] = tokens
    session.q = p
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
