"""What a head bundle is tied to: a hash over everything that decides a backbone's states and logits."""

import hashlib
from collections.abc import Mapping

import torch
from torch import nn

from backbones.contract import Grid

NORM_TAP = "pre-norm"


def fingerprint(parts: Mapping[str, nn.Module], grid: Grid, dtype: torch.dtype) -> str:
    """Hash of the weights of `parts` by name, shape, dtype and bytes, of the grid, the norm tap and `dtype`.

    The same in every process and on every device; changed by any weight.
    """
    digest = hashlib.sha256(f"{NORM_TAP} {grid.rows}x{grid.cols} {dtype}".encode())
    for part in sorted(parts):
        for name, weight in sorted(parts[part].named_parameters()):
            digest.update(f"\n{part}.{name} {tuple(weight.shape)} {weight.dtype}\n".encode())
            digest.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
