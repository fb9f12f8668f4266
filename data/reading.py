"""Reading: what the frozen backbone makes of one image, which is all that draft heads learn from.

Images are read one at a time. So a reading is a function of the image alone, bit for bit: batch mates, their
padding and the number of processes have no part in it, and one that was kept is as good as a new one.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from backbones.contract import Backbone
from data.harvest import harvest
from data.shards import Rollout
from data.siblings import Others, harvest_siblings
from heads.contract import Siblings

DRAWS = 4
"""How many different draws of siblings an image has; epochs take turns, and each can be kept.

On the pocket model (640 steps, 6.7 epochs) the correction head's cross-entropy on 32 unseen images is 1.9537
with one draw, 1.9481 with four and 1.9480 with a new one each epoch.
"""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Of one image, in G guidance branches, on the backbone's device and in its dtype."""

    states: Float[Tensor, "G P D"]
    """Pre-norm emission states: entry p is the state whose logits are the law of token p."""
    others: Others | None = None
    """For heads that read siblings."""


@runtime_checkable
class Reads(Protocol):
    """A way to come by readings."""

    def __call__(self, rollout: Rollout, epoch: int, /) -> Reading: ...


class Reader:
    """Reads by the backbone itself: one teacher-forced forward an image.

    Args:
        backbone: The frozen model.
        guidance: Of the decoding to come; at any but 1 the unconditional branch is read too.
        siblings: Whether siblings are wanted, drawn at that guidance.
        seed: Of the siblings: they are a function of (seed, image, epoch modulo `DRAWS`).
    """

    def __init__(self, backbone: Backbone, *, guidance: float, siblings: bool, seed: int) -> None:
        self.backbone, self.guidance, self.siblings, self.seed = backbone, guidance, siblings, seed

    def __call__(self, rollout: Rollout, epoch: int) -> Reading:
        """A reading for the heads' lesson of an epoch.

        Raises:
            RowcastError: if the tokens are not the backbone's, or a state is not finite.
        """
        states = harvest(self.backbone, [rollout], self.guidance != 1, session=self.siblings).states
        if not self.siblings:
            return Reading(states=states)
        generator = torch.Generator().manual_seed(self._draw(rollout, epoch))
        others = harvest_siblings(self.backbone, rollout, states, guidance=self.guidance, generator=generator)
        return Reading(states=states, others=others)

    def _draw(self, rollout: Rollout, epoch: int) -> int:
        origin = (self.seed, rollout.seed, rollout.sample, rollout.prompt, epoch % DRAWS)
        return int.from_bytes(hashlib.sha256(repr(origin).encode()).digest()[:7], "little")


def together(
    backbone: Backbone, rollouts: Sequence[Rollout], readings: Sequence[Reading]
) -> tuple[Float[Tensor, "GN P D"], Float[Tensor, "GN P D"], Siblings | None]:
    """States, embeddings and siblings of N images in one batch; conditional rows first."""
    states = _stacked([reading.states for reading in readings])
    branches = len(states) // len(rollouts)
    tokens = torch.stack([rollout.tokens for rollout in rollouts]).to(backbone.device)
    embeddings = backbone.embed(tokens).repeat(branches, 1, 1)
    others = [reading.others for reading in readings if reading.others is not None]
    if not others:
        return states, embeddings, None
    siblings = Siblings(
        places=torch.stack([other.places for other in others]).repeat(branches, 1),
        embeddings=backbone.embed(torch.stack([other.tokens for other in others])).repeat(branches, 1, 1),
        states=_stacked([other.states for other in others]),
    )
    return states, embeddings, siblings


def _stacked(parts: Sequence[Float[Tensor, "G K D"]]) -> Float[Tensor, "GN K D"]:
    """One branch of all images, then the next."""
    return torch.stack(list(parts), 1).flatten(0, 1)
