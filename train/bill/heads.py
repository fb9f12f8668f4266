"""Memory of the heads' part of a training step: their own code, run on shapes without values."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from backbones.rehearsal import rehearsal
from data.siblings import PLACES
from heads.contract import Lesson, Siblings
from train.bill.setting import Setting

FP32 = 4
"""Bytes of a trained weight."""


def learning_peak(setting: Setting) -> int:
    """The most bytes of activations and gradients that loss and backward pass hold, in fp32.

    The weights, states and embeddings are not among them.
    """
    backbone, bank = setting.backbone, setting.heads
    shape = (setting.rows, backbone.grid.size, backbone.width)
    output = torch.empty(backbone.codes, backbone.width, dtype=backbone.dtype, device="meta")
    lesson = Lesson(
        states=_states(*shape, dtype=backbone.dtype),
        embeddings=_states(*shape, dtype=backbone.dtype),
        grid=backbone.grid,
        chunk=setting.job.trainer.loss_chunk,
        head=_head(output),
        generator=torch.Generator(),
        siblings=siblings(setting) if bank.reads_siblings else None,
    )
    for weight in bank.parameters():
        weight.grad = None
    with rehearsal() as memory:
        bank.objective(bank.losses(lesson)).backward()
    return memory.peak


def siblings(setting: Setting) -> Siblings:
    """Siblings of all rows, without values."""
    backbone = setting.backbone
    shape = (setting.rows, places(setting), backbone.width)
    return Siblings(
        places=torch.empty(shape[:2], dtype=torch.long, device="meta"),
        embeddings=_states(*shape, dtype=backbone.dtype),
        states=_states(*shape, dtype=backbone.dtype),
    )


def places(setting: Setting) -> int:
    """Places of an image for which siblings are drawn."""
    grid = setting.backbone.grid
    return min(PLACES, grid.rows * (grid.cols - 1))


def harvest_peak(setting: Setting) -> tuple[int, int]:
    """Bytes of the backbone's part of a step: the most at once, and what is held while the heads learn.

    Images are read one at a time. Heads that read siblings keep the session of the last one open, cache and
    all; the others take one forward.
    """
    backbone, images = setting.backbone, setting.job.trainer.batch
    image = setting.branches * backbone.grid.size * backbone.width * backbone.dtype.itemsize
    reads_siblings = setting.heads.reads_siblings
    peak, open_cache = _session_peak(setting, image) if reads_siblings else _forward_peak(setting)
    # States as they were read, side by side in one tensor, and the embeddings beside them.
    together = 3 * images * image
    return max(peak, open_cache + 2 * image) + (images - 1) * image, open_cache + together


def _forward_peak(setting: Setting) -> tuple[int, int]:
    foot = setting.footprint

    def read() -> tuple[int, ...]:
        with rehearsal() as memory:
            hidden = foot.feed(setting.branches, 0, setting.prompt + foot.slots - 1, None)
            kept = hidden[:, setting.prompt - 1 :].contiguous()  # as `states` gathers them
            del hidden, kept
        return (memory.peak,)

    return foot.over_layers(read)[0], 0


def _session_peak(setting: Setting, image: int) -> tuple[int, int]:
    from data.harvest import BLOCK

    foot, rows = setting.footprint, setting.branches
    slots = setting.prompt + foot.slots

    def read() -> tuple[int, ...]:
        with rehearsal() as memory:
            cache = foot.new_cache(setting.prompt)
            width = min(BLOCK, foot.slots)
            foot.logits(foot.feed(rows, slots - width, width, cache))
            walked = memory.peak, memory.live
            foot.logits(foot.feed(rows, slots - 1, places(setting), cache))  # for which the cache grows
            return *walked, memory.peak, memory.live

    walk, open_then, siblings, open_now = foot.over_layers(read)
    # The blocks' states, then their one tensor.
    return max(walk + image, open_then + 2 * image, siblings + image), open_now


def _states(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def _head(output: Tensor) -> Callable[[Tensor], Tensor]:
    """Logits of states, through which gradients pass, as those of the backbone's own head."""
    return lambda hidden: functional.linear(hidden.to(output.dtype), output).float()
