"""How much memory painting takes, and how many images fit into a device at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from backbones.capacity import usable
from backbones.contract import Backbone, Sampling
from backbones.errors import NoRoomError
from backbones.footprint import Footprint, without_values
from backbones.foresight import foresight
from backbones.rehearsal import rehearsal
from decoding.warp import Warp

ROWS_AT_ONCE = 2
"""Rows of the grid in the largest block that the row-wise decoders feed."""


@dataclass(frozen=True, kw_only=True)
class Painting:
    """Bytes that painting takes beside the weights."""

    image: int
    """Of each image that is painted at the same time: cache, states, laws, the work of a forward."""
    cache: int
    """Of that, keys and values."""
    open: int
    """Of that, what stays until the next image is begun."""


def painting(footprint: Footprint, sampling: Sampling, prompt: int, block: int) -> Painting:
    """What one image takes.

    Args:
        footprint: of the backbone.
        sampling: guidance doubles the rows.
        prompt: slots of the prompt.
        block: tokens fed at a time: 1 for plain autoregression, rows of the grid for SSD.
    """
    backbone = footprint.backbone
    rows = branches(sampling)
    slots = prompt + footprint.slots
    width = min(block + block // backbone.grid.cols, footprint.slots)

    def paint() -> tuple[int, ...]:
        with rehearsal() as memory, torch.device("meta"):
            states = torch.empty(rows, backbone.grid.size + 1, backbone.width, dtype=backbone.dtype)
            drafts = torch.empty(1, block, backbone.codes)
            longest = max(width, prompt)  # the block or the prompt, whichever is more work
            cache = footprint.new_cache(prompt)
            hidden = footprint.feed(rows, slots - longest, longest, cache)
            laws = Warp(sampling)(footprint.logits(hidden[:, -width:]), rows)
            del laws, drafts
            return memory.peak, states.nbytes

    peak, states = footprint.over_layers(paint)
    held = rows * slots * footprint.slot
    return Painting(image=peak, cache=held, open=held + states)


def branches(sampling: Sampling) -> int:
    """Rows of a batch that an image takes: two with guidance."""
    return 1 if sampling.guidance == 1 else 2


def images_at_once(
    backbone: Backbone,
    sampling: Sampling,
    prompts: Sequence[str],
    *,
    wanted: int | None,
    most: int,
    option: str,
    block: int = 1,
) -> int:
    """How many images a loaded backbone paints together, with what its device has left for them.

    Args:
        backbone: with its weights on its device.
        sampling: how tokens are drawn.
        prompts: what will be painted.
        wanted: what the user asked for; none takes as many as fit.
        most: of those that nobody asked for.
        option: where the user asks, for the message.
        block: tokens fed at a time.

    Raises:
        NoRoomError: if `wanted` images do not fit, or not even one; with the largest number that does.
    """
    fits = most
    with foresight(f"{option}={wanted or most}"):
        shapes = Footprint(without_values(backbone), backbone.device.type)
        need = painting(shapes, sampling, shapes.longest(prompts), block).image
        room = usable(backbone.device)
        fits = max(0, (room - shapes.weights) // need)
        if fits < (wanted or 1):
            advice = f"{option}={fits} fits" if fits else "choose a smaller model.size or another device"
            raise NoRoomError(
                f"expected at most {room / 1e9:.1f} GB on {backbone.device} to paint {wanted or 1} images "
                f"at a time, found {(shapes.weights + (wanted or 1) * need) / 1e9:.1f} GB: {advice}"
            )
    return wanted or min(most, fits)
