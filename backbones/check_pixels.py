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
    images = backbone.decode(random_codes(backbone, 1, seed))
    height, width = images.shape[2:]
    spread = float(images.float().std())
    upper_right, lower_left = (_changes(backbone, place, seed) for place in (cols - 1, (rows - 1) * cols))
    in_place = bool(upper_right[0, 1] > upper_right[1, 0] and lower_left[1, 0] > lower_left[0, 1])
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


def _changes(backbone: Backbone, place: int, seed: int) -> Float[Tensor, "2 2"]:
    """How much each quarter of an image changes with the token at one place."""
    tokens = random_codes(backbone, 1, seed).repeat(4, 1)
    tokens[:, place] = (tokens[:, place] + torch.arange(4, device=tokens.device)) % backbone.codes
    images = backbone.decode(tokens).float()
    apart = (images[1:] - images[:1]).abs().mean((0, 1))
    quarters = [part.mean() for half in apart.tensor_split(2) for part in half.tensor_split(2, 1)]
    return torch.stack(quarters).view(2, 2)
