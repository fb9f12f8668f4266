"""Teacher-forced walks through a backbone's session, in blocks of any length."""

import torch
from torch import Tensor

from backbones.contract import Backbone, Prompt, Step


def walk(backbone: Backbone, prompt: Prompt, tokens: Tensor, block: int) -> Step:
    """Prefill, then all tokens but the last in blocks: the entries that emit tokens 0..P-1."""
    steps = [backbone.begin(prompt)]
    steps += [backbone.forward(part) for part in tokens[:, :-1].split(block, dim=1)]
    return join(steps)


def join(steps: list[Step]) -> Step:
    return Step(
        hidden=torch.cat([s.hidden for s in steps], 1), logits=torch.cat([s.logits for s in steps], 1)
    )


def images(backbone: Backbone, count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(backbone.codes, (count, backbone.grid.size), generator=generator)
