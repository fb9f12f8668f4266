"""Pixels as every VQ decoder gives them, and as pictures hold them."""

import torch
from jaxtyping import Float, UInt8
from torch import Tensor


def to_uint8(pixels: Float[Tensor, "N 3 H W"]) -> UInt8[Tensor, "N 3 H W"]:
    """From about -1 to 1 to whole numbers 0 to 255; what lies outside is cut off."""
    return ((pixels + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)
