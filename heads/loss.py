"""The training losses of draft heads, to the backbone's own states and laws, in bounded memory."""

from collections.abc import Sequence
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from backbones.contract import Grid
from backbones.errors import RowcastError
from heads.contract import Lesson
from heads.offsets import AnyOffset, beside, pairs


@runtime_checkable
class Predicts(Protocol):
    """What the loss needs of a bank of predictors."""

    width: int
    offsets: tuple[AnyOffset, ...]

    def columns(self, offset: AnyOffset, /) -> int: ...

    def __call__(self, offset: AnyOffset, state: Tensor, embedding: Tensor, /) -> Tensor: ...


def check_targets(offsets: Sequence[AnyOffset], grid: Grid) -> None:
    """Refuses heads that have nothing to learn on `grid`; call it before the first step.

    Raises:
        RowcastError: if an offset reaches past the grid from every position.
    """
    for offset in offsets:
        if len(pairs(grid, offset)[0]) == 0:
            raise RowcastError(
                f"expected targets for draft head {offset.label}, found none on a grid of {grid.rows} rows "
                f"and {grid.cols} columns; lower {offset.option}"
            )


def head_losses(bank: Predicts, lesson: Lesson, *, laws: bool = False) -> dict[str, Float[Tensor, ""]]:
    """Smooth-L1 (beta 1) of every head by label, the mean over its pairs and the width, in fp32.

    The training loss of SSD (arXiv 2606.20543) is the mean over heads: states are matched and nothing else.
    With `laws` also the mean cross-entropy of the predicted states' laws to the true ones, in nats, as "v+1
    law". When all pairs of all heads fit into the lesson's chunk, nothing is computed twice; otherwise the
    backward pass recomputes chunk by chunk.

    Raises:
        RowcastError: if a head has no target, the images do not fill the grid, or the chunk is below 1.
    """
    check_targets(bank.offsets, lesson.grid)
    lesson.check()
    images, positions, width = lesson.states.shape
    starts = torch.arange(images)[:, None] * positions
    indexed = {
        offset: tuple((starts + index).flatten() for index in pairs(lesson.grid, offset))
        for offset in bank.offsets
    }
    chunk = min(lesson.chunk, _law_chunk(lesson)) if laws else lesson.chunk
    recompute = sum(len(source) for source, _ in indexed.values()) > chunk

    losses: dict[str, Tensor] = {}
    for offset, (source, target) in indexed.items():
        piece = partial(_loss_sums, bank, offset, lesson, laws=laws)
        sums = []
        for indices in zip(source.split(chunk), target.split(chunk), strict=True):
            if recompute:
                sums.append(checkpoint(piece, *indices, use_reentrant=False, preserve_rng_state=False))
            else:
                sums.append(piece(*indices))
        state, law = torch.stack(sums).sum(0) / len(source)
        losses[offset.label] = state / width
        if laws:
            losses[f"{offset.label} law"] = law
    return losses


def law_loss(
    predicted: Float[Tensor, "K D"], targets: Float[Tensor, "K D"], lesson: Lesson
) -> Float[Tensor, ""]:
    """Mean cross-entropy of predicted laws to true ones, in nats, in pieces of bounded memory."""
    size = _law_chunk(lesson)
    pieces = [(lesson, *part) for part in zip(predicted.split(size), targets.split(size), strict=True)]
    if len(pieces) > 1:
        sums = [checkpoint(_law_sum, *part, use_reentrant=False) for part in pieces]
    else:
        sums = [_law_sum(*part) for part in pieces]
    return torch.stack(sums).sum() / len(predicted)


def _law_chunk(lesson: Lesson) -> int:
    """Pairs whose laws take no more memory than a chunk of states."""
    with torch.no_grad():
        codes = lesson.head(lesson.states[:1, :1]).shape[-1]
    return max(1, lesson.chunk * lesson.states.shape[-1] // codes)


def _law_sum(
    lesson: Lesson, predicted: Float[Tensor, "K D"], targets: Float[Tensor, "K D"]
) -> Float[Tensor, ""]:
    """Summed cross-entropy of K laws to those of the true states."""
    with torch.no_grad():
        law = lesson.head(targets).softmax(-1)
    return -(law * lesson.head(predicted).log_softmax(-1)).sum()


def _loss_sums(
    bank: Predicts,
    offset: AnyOffset,
    lesson: Lesson,
    source: Int[Tensor, " K"],
    target: Int[Tensor, " K"],
    *,
    laws: bool,
) -> Float[Tensor, "2"]:
    """Summed Smooth-L1 over K pairs, and with `laws` the summed cross-entropy, else 0.

    Gathers here, so that a recomputed chunk keeps no copy of its inputs.
    """
    states, embeddings = lesson.states.flatten(0, 1), lesson.embeddings.flatten(0, 1)
    source, target = source.to(states.device), target.to(states.device)
    cols, columns = lesson.grid.cols, bank.columns(offset)
    predicted = bank(offset, beside(states, source, cols, columns), beside(embeddings, source, cols, columns))
    state = functional.smooth_l1_loss(predicted.float(), states[target].float(), reduction="sum")
    law = _law_sum(lesson, predicted, states[target]) if laws else torch.zeros_like(state)
    return torch.stack([state, law])
