"""Siblings: other likely tokens for some places of an archived image, and the states that would follow."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from backbones.contract import Backbone, Grid, Sampling
from data.shards import Rollout
from decoding.kernel import sample
from decoding.warp import Warp

PLACES = 64
"""Places an image, at most: what a step costs more by them must stay small beside a whole image."""


@dataclass(frozen=True, kw_only=True)
class Others:
    """Other tokens at K places of one image, and what would have come of each."""

    places: Int[Tensor, " K"]
    """In raster order; each has a right neighbour in its row."""
    tokens: Int[Tensor, " K"]
    states: Float[Tensor, "G K D"]
    """That emit the next token, if the other one stood at the place."""


@torch.no_grad()
def harvest_siblings(
    backbone: Backbone,
    rollout: Rollout,
    states: Float[Tensor, "G P D"],
    *,
    guidance: float,
    generator: torch.Generator,
    places: int = PLACES,
) -> Others:
    """Feeds one other token at each of some places, beside the whole image that is in an open session.

    Args:
        backbone: the frozen model, as `harvest` with `session` has left it with this image alone.
        rollout: the image.
        states: its states.
        guidance: the other tokens are drawn by the law of this guidance.
        generator: decides places and tokens.
        places: how many places, if the grid has so many.

    Raises:
        RowcastError: if the backbone cannot feed tokens beside the image.
    """
    chosen = _places(backbone.grid, places, generator)
    standing = rollout.tokens[chosen].to(backbone.device)
    others = _others(backbone, states[:, chosen], standing[None], guidance, generator)
    fed = backbone.length
    # Each other token sees what the one in its place sees, and itself.
    sees = torch.zeros(len(chosen), fed + len(chosen), dtype=torch.bool)
    sees[:, :fed] = torch.arange(fed) < chosen[:, None]
    step = backbone.forward_at(others, chosen.tolist(), sees.to(backbone.device))
    return Others(places=chosen.to(backbone.device), tokens=others[0], states=step.hidden)


def _places(grid: Grid, count: int, generator: torch.Generator) -> Int[Tensor, " K"]:
    """Some of the places that have a right neighbour, in raster order."""
    inside = torch.arange(grid.size).view(grid.rows, grid.cols)[:, :-1].flatten()
    return inside[torch.randperm(len(inside), generator=generator)[:count]].sort().values


def _others(
    backbone: Backbone,
    states: Float[Tensor, "GN K D"],
    standing: Int[Tensor, "N K"],
    guidance: float,
    generator: torch.Generator,
) -> Int[Tensor, "N K"]:
    """Draws a token for each place by the law there, but for the one that stands there."""
    law = Warp(Sampling(guidance=guidance))(backbone.head(states), len(states) // len(standing))
    # A law with all its mass on one token still has to give another one.
    law = law.clamp_min(torch.finfo(law.dtype).tiny).scatter(2, standing[..., None], 0)
    return sample(law, torch.rand(law.shape[:2], generator=generator, dtype=torch.float64).to(law.device))
