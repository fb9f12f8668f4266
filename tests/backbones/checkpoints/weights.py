"""Random weights that tell mistakes apart: spread values, norms that are not the identity, plain logits."""

from collections.abc import Iterable

import torch
from torch import nn


@torch.no_grad()
def spread(modules: Iterable[nn.Module], gain: float = 1.5, seed: int = 0) -> None:
    """Fills matrices with normal values of variance `gain**2 / columns`, vectors with values around 1."""
    generator = torch.Generator().manual_seed(seed)
    for module in modules:
        for parameter in module.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, gain * parameter.shape[-1] ** -0.5, generator=generator)
            else:
                # A norm with gains of 1 applied twice is the same as applied once.
                parameter.normal_(1, 0.3, generator=generator)
