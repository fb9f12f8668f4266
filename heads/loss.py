"""The training losses of draft heads, to the backbone's own states and laws, in bounded memory."""

from collections.abc import Callable, Sequence
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
from heads.offsets import AnyOffset, pairs


@runtime_checkable
class Predicts(Protocol):
    """What the loss needs of a bank of predictors."""

    width: int
    offsets: tuple[AnyOffset, ...]

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


def head_losses(bank: Predicts, lesson: Lesson) -> dict[AnyOffset, Float[Tensor, ""]]:
    """Smooth-L1 (beta 1) of every head, the mean over its pairs and the width, in fp32.

    The training loss is the mean over heads (SSD, arXiv 2606.20543: states are matched and nothing else).
    When all pairs of all heads fit into the lesson's chunk, nothing is computed twice; otherwise the backward
    pass recomputes chunk by chunk.

    Raises:
        RowcastError: if a head has no target, the images do not fill the grid, or the chunk is below 1.
    """
    check_targets(bank.offsets, lesson.grid)
    lesson.check()
    states, embeddings, grid, chunk = lesson.states, lesson.embeddings, lesson.grid, lesson.chunk
    images, positions, _ = states.shape
    flat_states, flat_embeddings = states.flatten(0, 1), embeddings.flatten(0, 1)
    starts = torch.arange(images)[:, None] * positions
    indexed = {
        offset: tuple((starts + index).flatten() for index in pairs(grid, offset)) for offset in bank.offsets
    }
    recompute = sum(len(source) for source, _ in indexed.values()) > chunk

    losses: dict[AnyOffset, Tensor] = {}
    for offset, (source, target) in indexed.items():
        sums = []
        for indices in zip(source.split(chunk), target.split(chunk), strict=True):
            arguments = (partial(bank, offset), flat_states, flat_embeddings, *indices)
            if recompute:
                sums.append(checkpoint(_loss_sum, *arguments, use_reentrant=False, preserve_rng_state=False))
            else:
                sums.append(_loss_sum(*arguments))
        losses[offset] = torch.stack(sums).sum() / (len(source) * bank.width)
    return losses


def law_loss(
    predicted: Float[Tensor, "K D"], targets: Float[Tensor, "K D"], lesson: Lesson
) -> Float[Tensor, ""]:
    """Mean cross-entropy of predicted laws to true ones, in nats, in pieces of bounded memory."""

    def piece(mine: Tensor, true: Tensor) -> Tensor:
        with torch.no_grad():
            law = lesson.head(true).softmax(-1)
        return -(law * lesson.head(mine).log_softmax(-1)).sum()

    with torch.no_grad():
        codes = lesson.head(targets[:1]).shape[-1]
    size = max(1, lesson.chunk * predicted.shape[-1] // codes)
    pieces = list(zip(predicted.split(size), targets.split(size), strict=True))
    if len(pieces) > 1:
        sums = [checkpoint(piece, *part, use_reentrant=False) for part in pieces]
    else:
        sums = [piece(*part) for part in pieces]
    return torch.stack(sums).sum() / len(predicted)


def _loss_sum(
    predict: Callable[[Tensor, Tensor], Tensor],
    states: Float[Tensor, "S D"],
    embeddings: Float[Tensor, "S D"],
    source: Int[Tensor, " K"],
    target: Int[Tensor, " K"],
) -> Float[Tensor, ""]:
    """Summed Smooth-L1 over K pairs; gathers here, so that a recomputed chunk keeps no copy of its inputs."""
    source, target = source.to(states.device), target.to(states.device)
    predicted = predict(states[source], embeddings[source])
    return functional.smooth_l1_loss(predicted.float(), states[target].float(), reduction="sum")
