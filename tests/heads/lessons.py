"""Whole images to learn from, without a backbone."""

import torch

from heads.contract import Lesson


def lesson(states, embeddings, grid, chunk=10_000, head=None, seed=0):
    """A lesson; without a `head` laws are those of the states themselves."""
    return Lesson(
        states=states,
        embeddings=embeddings,
        grid=grid,
        chunk=chunk,
        head=head or (lambda hidden: hidden.float()),
        generator=torch.Generator().manual_seed(seed),
    )
