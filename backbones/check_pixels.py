"""Proofs about pixels: codes become pictures, in their places, by the VQ that the trunk was trained with."""

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from backbones.contract import Backbone
from backbones.proof import Proof, Walk, random_codes, whole

INCOHERENT = 0.6
"""Jumps between the pixels of neighbouring tokens, over those of random codes, from which on tokens and
pixels do not belong together. The pocket model has 0.2; with shifted codes or another VQ it has 0.8 to 1."""


@torch.no_grad()
def pixels(backbone: Backbone, seed: int) -> Proof:
    """Codes become pictures, each in its place."""
    rows, cols = backbone.grid.rows, backbone.grid.cols
    tokens = random_codes(backbone, 1, seed).repeat(5, 1)
    corners = [cols - 1] * 2 + [(rows - 1) * cols] * 2
    for image, place in enumerate(corners, 1):
        tokens[image, place] = (tokens[image, place] + image) % backbone.codes
    images = backbone.decode(tokens).float()
    spread, (height, width) = float(images[0].std()), images.shape[2:]
    upper_right, lower_left = (images[1:] - images[0]).abs().mean(1).split(2)
    in_place = _tilt(upper_right) > 0 > _tilt(lower_left)
    return Proof(
        expected=f"{rows}x{cols} square cells, not constant, changed where their token is",
        found=f"{width}x{height} pixels, spread {spread:.0f} of 255, {'in' if in_place else 'out of'} place",
        ok=height * cols == width * rows and spread > 1 and in_place,
        advice="the VQ weights are broken, or rows and columns are swapped",
    )


@torch.no_grad()
def coherent(backbone: Backbone, walk: Walk, seed: int) -> Proof:
    """Sampled rows are smoother than random codes: so they are for the VQ of the trunk's training alone."""
    painted = backbone.decode(whole(walk.tokens, backbone.grid.size))
    share = _jumps(painted, backbone) / _jumps(backbone.decode(random_codes(backbone, 2, seed)), backbone)
    return Proof(
        expected=f"jumps between tokens below {INCOHERENT:.0%} of those of random codes",
        found=f"{share:.0%}",
        ok=share < INCOHERENT,
        advice="the VQ is another model's, or codes are shifted: check model.pixels and the special tokens",
    )


def _jumps(images: UInt8[Tensor, "N 3 H W"], backbone: Backbone) -> float:
    """Mean difference of the pixels on both sides of the borders between columns of tokens."""
    cell = images.shape[-1] // backbone.grid.cols
    left, right = images[..., cell - 1 : -1 : cell].float(), images[..., cell::cell].float()
    return float((left - right).abs().mean())


def _tilt(changes: Float[Tensor, "N H W"]) -> float:
    """How much more changed in the upper right quarter than in the lower left one."""
    upper, lower = changes.mean(0).tensor_split(2)
    return float(upper.tensor_split(2, 1)[1].mean() - lower.tensor_split(2, 1)[0].mean())
