"""Memory of the heads' part of a training step: their own code, run on shapes without values."""

from collections.abc import Callable

import torch
from torch import Tensor

from backbones.rehearsal import Memory, rehearsal
from data.siblings import PLACES
from heads.contract import Lesson, Siblings
from train.bill.setting import Setting


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
    places = min(PLACES, backbone.grid.rows * (backbone.grid.cols - 1))
    shape = (setting.rows, places, backbone.width)
    return Siblings(
        places=torch.empty(places, dtype=torch.long, device="meta"),
        embeddings=_states(*shape, dtype=backbone.dtype),
        states=_states(*shape, dtype=backbone.dtype),
    )


def harvest_peak(setting: Setting) -> tuple[int, int]:
    """Bytes of the backbone's part of a step: the most at once, and what is held while the heads learn.

    Heads that read siblings keep a session open, whose cache stays; the others take one forward.
    """
    foot, backbone, rows = setting.footprint, setting.backbone, setting.rows
    slots = setting.prompt + foot.slots
    states = rows * backbone.grid.size * backbone.width * backbone.dtype.itemsize
    with rehearsal() as memory:
        if setting.heads.reads_siblings:
            return _session_peak(setting, memory, slots, states)
        hidden = foot.feed(rows, 0, slots - 1, None)
        kept = hidden[:, setting.prompt - 1 :].contiguous()  # as `states` gathers them
        del hidden, kept
    return max(memory.peak, 3 * states), 2 * states


def _session_peak(setting: Setting, memory: Memory, slots: int, states: int) -> tuple[int, int]:
    from data.harvest import BLOCK

    foot, rows = setting.footprint, setting.rows
    cache = foot.new_cache(setting.prompt)
    width = min(BLOCK, foot.slots)
    foot.logits(foot.feed(rows, slots - width, width, cache))
    walk = max(memory.peak + states, memory.live + 2 * states)  # the blocks' states, then their one tensor
    places = min(PLACES, setting.backbone.grid.size)
    foot.logits(foot.feed(rows, slots - 1, places, cache))  # for which the cache grows
    return max(walk, memory.peak + 2 * states), memory.live + 2 * states


def _states(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def _head(output: Tensor) -> Callable[[Tensor], Tensor]:
    """An output layer, of any family alike."""
    return lambda hidden: torch.nn.functional.linear(hidden.to(output.dtype), output).float()
