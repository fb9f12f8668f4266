"""How well heads draft on images that they were never trained on, and on images that they were.

The held-out images are validation's own paintings by plain sampling: drawn from the law that the rollouts
are drawn from, with a seed of their own. A prompt may be in both sets; an image is not.

Acceptance here is teacher-forced: at every place with a true context, the share `sum min(p, q)` of a draft's
law q that verification by the true law p lets stay, in expectation (the rule that decoding applies). It has
none of the noise of drawn tokens, and the same images can be asked again at every validation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from backbones.contract import Sampling
from data.shards import Rollout
from decoding.warp import Warp
from heads.contract import DraftHeads, Lesson

PLACES = 512
"""Places whose laws are alive at once."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """How heads did on N images, image by image."""

    loss: Float[Tensor, " N"]
    """What training lowers."""
    accepted: dict[str, Float[Tensor, " N"]]
    """By label: mean over the places of the expected share of accepted drafts."""

    def mean_accepted(self) -> Float[Tensor, " N"]:
        """The mean over labels."""
        return torch.stack(list(self.accepted.values())).mean(0)

    def means(self) -> dict[str, float]:
        """Over the images: `loss`, `accepted`, and `accepted/` every label."""
        labels = {f"accepted/{label}": part.mean().item() for label, part in self.accepted.items()}
        return {"loss": self.loss.mean().item(), "accepted": self.mean_accepted().mean().item(), **labels}


@torch.no_grad()
def judge(
    bank: DraftHeads,
    lesson: Callable[[Rollout], Lesson],
    rollouts: Sequence[Rollout],
    sampling: Sampling,
) -> Judgement:
    """Judges heads on images, one at a time: of large models only one image's states are in memory.

    Args:
        bank: the heads, as they are.
        lesson: what there is to learn of an image.
        rollouts: N images.
        sampling: how laws are made.

    Raises:
        RowcastError: if an image is not this backbone's.
    """
    losses, accepted = [], []
    for rollout in rollouts:
        whole = lesson(rollout)
        losses.append(bank.objective(bank.losses(whole)).float())
        accepted.append(overlaps(bank, whole, Warp(sampling)))
    return Judgement(
        loss=torch.stack(losses).cpu(),
        accepted={label: torch.stack([one[label] for one in accepted]).cpu() for label in accepted[0]},
    )


def overlaps(bank: DraftHeads, lesson: Lesson, warp: Warp) -> dict[str, Float[Tensor, ""]]:
    """By label, the mean over one image's places of `sum min(p, q)`."""
    branches, shares = len(lesson.states), {}
    for draft in bank.drafts(lesson):
        pieces = zip(draft.predicted.split(PLACES, 1), draft.targets.split(PLACES, 1), strict=True)
        kept = [
            torch.minimum(warp(lesson.head(mine), branches), warp(lesson.head(true), branches)).sum(-1)
            for mine, true in pieces
        ]
        shares[draft.label] = torch.cat(kept, 1).mean()
    return shares
