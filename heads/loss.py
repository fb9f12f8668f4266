"""The training loss of the heads: Smooth-L1 to the backbone's own states, in bounded memory."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from backbones.contract import Grid
from backbones.errors import RowcastError
from heads.bank import HeadBank
from heads.offsets import Offset, pairs


def check_targets(offsets: Sequence[Offset], grid: Grid) -> None:
    """Refuses heads that have nothing to learn on `grid`; call it before the first step.

    Raises:
        RowcastError: if an offset reaches past the grid from every position.
    """
    for offset in offsets:
        if offset.down >= grid.rows or offset.right >= grid.cols:
            raise RowcastError(
                f"expected targets for draft head {offset.label}, found none on a grid of {grid.rows} rows "
                f"and {grid.cols} columns; lower heads.{'vertical' if offset.down else 'horizontal'}"
            )


def head_losses(
    bank: HeadBank,
    states: Float[Tensor, "B P D"],
    embeddings: Float[Tensor, "B P D"],
    grid: Grid,
    chunk: int,
) -> dict[Offset, Float[Tensor, ""]]:
    """Smooth-L1 (beta 1) of every head, the mean over its pairs and the width, in fp32.

    The training loss is the mean over heads (SSD, arXiv 2606.20543: states are matched and nothing else).

    Args:
        bank: the heads.
        states: pre-norm emission states of whole images; entry p emits token p. Images and guidance
            branches share the first axis.
        embeddings: input embeddings of the tokens; entry p is token p.
        grid: the token grid, with P = rows * cols.
        chunk: most pairs whose activations are alive at once. When all pairs of all heads fit, nothing is
            computed twice; otherwise the backward pass recomputes chunk by chunk.

    Raises:
        RowcastError: if a head has no target, the images do not fill the grid, or `chunk` is below 1.
    """
    check_targets(bank.offsets, grid)
    images, positions, _ = states.shape
    if images == 0 or positions != grid.size or chunk < 1:
        raise RowcastError(
            f"expected whole images of {grid.size} states and chunks of at least one pair, found {images} "
            f"images of {positions} states and chunks of {chunk}; check the rollouts and trainer.loss_chunk"
        )
    flat_states, flat_embeddings = states.flatten(0, 1), embeddings.flatten(0, 1)
    starts = torch.arange(images)[:, None] * positions
    indexed = {
        offset: tuple((starts + index).flatten() for index in pairs(grid, offset)) for offset in bank.offsets
    }
    recompute = sum(len(source) for source, _ in indexed.values()) > chunk

    losses: dict[Offset, Tensor] = {}
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
