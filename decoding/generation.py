"""What decoding returns: the tokens, and a trace of how they came about."""

from collections import defaultdict
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from backbones.contract import Grid


@dataclass(frozen=True, kw_only=True)
class Round:
    """One verification of m drafted positions; tokens that are exact when drawn are never in a round."""

    index: int
    """How many rounds these positions had been through before."""
    positions: Int[Tensor, " m"]
    """Raster positions."""
    offsets: list[str]
    """What drafted each position: the label of its offset, "v+1"."""
    accepted: Bool[Tensor, "N m"]
    changed: Bool[Tensor, "N m"]
    """Where the token after the round is another than before."""


@dataclass(kw_only=True)
class Trace:
    """Counters of one generation; a forward is one trunk call on all guidance branches."""

    forwards: int = 0
    """Trunk calls, the prefill among them."""
    fed: int = 0
    """Image tokens fed to the trunk, per image."""
    head_calls: int = 0
    """Draft predictor calls."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds by phase, and their `total`."""
    rounds: list[Round] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    """The forward after which the token of each raster position was final."""

    def acceptance(self) -> dict[str, tuple[int, int]]:
        """Accepted and examined fresh drafts by offset label: round 0, where q is the heads' law."""
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for round_ in self.rounds:
            if round_.index == 0:
                images = len(round_.accepted)
                for label, accepted in zip(round_.offsets, round_.accepted.sum(0).tolist(), strict=True):
                    counts[label][0] += accepted
                    counts[label][1] += images
        return {label: (accepted, examined) for label, (accepted, examined) in counts.items()}

    def changed_fraction(self) -> list[float]:
        """Changed share of the positions that each round index examined."""
        changed: dict[int, int] = defaultdict(int)
        examined: dict[int, int] = defaultdict(int)
        for round_ in self.rounds:
            changed[round_.index] += int(round_.changed.sum())
            examined[round_.index] += round_.changed.numel()
        return [changed[index] / examined[index] for index in sorted(examined)]

    def changed_map(self, grid: Grid) -> Float[Tensor, "R C"]:
        """How often the token of each cell changed, mean over images."""
        total = torch.zeros(grid.size)
        for round_ in self.rounds:
            total[round_.positions] += round_.changed.float().mean(0).cpu()
        return total.view(grid.rows, grid.cols)


@dataclass(frozen=True, kw_only=True)
class Generation:
    """N painted images."""

    tokens: Int[Tensor, "N P"]
    trace: Trace
