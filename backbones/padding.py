"""Prompts of different lengths in one batch: padded on the left, so that they all end at image token 0."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def left_padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Int[Tensor, "B L"], Bool[Tensor, "B L"]]:
    """Rows of ids as one batch and its mask (true where a row has a token)."""
    length = max(map(len, rows))
    ids = torch.tensor([[pad] * (length - len(row)) + list(row) for row in rows])
    mask = torch.tensor([[False] * (length - len(row)) + [True] * len(row) for row in rows])
    return ids, mask
