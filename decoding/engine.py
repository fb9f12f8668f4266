"""The one loop behind every decoder.

A method proposes a block, one forward feeds it, the shift pairs each law with the token it judges, the method
accepts and repairs, and says how much is final and how much of the cache stays.
"""

from collections.abc import Sequence

import torch

from backbones.contract import Backbone, Sampling
from backbones.errors import RowcastError
from decoding.clock import Clock
from decoding.generation import Generation
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
        method.rule.bind(backbone)
        clock.lap("prefill")
        while method.propose(session):
            clock.lap("draft")
            method.advance(session, clock)
        clock.lap("draft")
        _check_finite(session)
    session.trace.seconds = clock.stop()
    # A copy made outside inference mode may enter autograd later.
    return Generation(tokens=session.tokens.clone(), trace=session.trace)


def _check_finite(session: Session) -> None:
    """One look at the end: a state that overflowed gives laws of NaN, which draw code 0 and nothing else."""
    if not session.states[:, : session.cached + 1].isfinite().all():
        exact = session.backbone.dtype == torch.float32
        advice = "check the weights with python -m backbones check" if exact else "set model.dtype=float32"
        raise RowcastError(
            f"expected finite states, found NaN or infinity in {session.backbone.name} at "
            f"{session.backbone.dtype}: {advice}"
        )
