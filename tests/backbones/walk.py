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


def greedy(backbone: Backbone, prompt: str) -> Tensor:
    """The most likely tokens of a whole image, one forward a token, at the official guidance: `[P]`."""
    step, tokens = backbone.begin(backbone.encode([prompt])), []
    for position in range(backbone.grid.size):
        conditional, unconditional = step.logits[:, -1].chunk(2)
        guided = unconditional + backbone.sampling.guidance * (conditional - unconditional)
        tokens.append(guided.argmax(-1, keepdim=True))
        if position < backbone.grid.size - 1:
            step = backbone.forward(tokens[-1])
    return torch.cat(tokens, 1)[0]
