"""The optimiser of the draft heads and its schedule, both functions of the options alone."""

import math
from dataclasses import dataclass

import torch
from torch import nn

BETAS = (0.9, 0.95)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How far and how fast to train."""

    steps: int
    warm_up: int
    """Steps of linear warm-up; the rest is a cosine to zero."""
    learning_rate: float
    """The peak."""
    weight_decay: float

    def factor(self, step: int) -> float:
        """The learning rate of a step (from 0), as a part of the peak.

        The total comes from the options, never from the trainer: asking Lightning for it makes it forget
        the loader's position on resume.
        """
        if step < self.warm_up:
            return (step + 1) / self.warm_up
        done = (step - self.warm_up) / max(1, self.steps - self.warm_up)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def build_optimiser(module: nn.Module, schedule: Schedule) -> torch.optim.AdamW:
    """AdamW over all parameters of `module`; norms are not decayed.

    The parameters carry their names, so that a checkpoint's moments can be matched by name.
    """
    named = [(name, weight) for name, weight in module.named_parameters() if weight.requires_grad]
    groups = [
        {"params": [pair for pair in named if pair[1].ndim >= 2], "weight_decay": schedule.weight_decay},
        {"params": [pair for pair in named if pair[1].ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=schedule.learning_rate, betas=BETAS)
