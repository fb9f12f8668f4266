"""SJD-VP (arXiv 2603.27115): draft what is likely to be accepted, judged by how its probability moves.

From one round to the next, tokens whose probability keeps growing are more often those that stand in the end.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from decoding.options.jacobi import GrowthPosterior
from decoding.rules.rule import Drafts


@dataclass(frozen=True, kw_only=True)
class History:
    """What earlier rounds left of the laws of positions `start..`."""

    start: int
    law: Float[Tensor, "N m V"]
    """The law of the round before."""
    mean: Float[Tensor, "N m V"]
    """Exponentially weighted average of the laws so far."""
    rises: Int[Tensor, "N m V"]
    """Rounds for which each probability has grown without a break."""

    def at(self, start: int, count: int) -> "History":
        """The same of positions `start..start+count`; zeros where there is no history yet."""
        missing = count - self.law[:, start - self.start :].shape[1]
        law, mean, rises = (
            torch.nn.functional.pad(rows[:, start - self.start :], (0, 0, 0, missing))
            for rows in (self.law, self.mean, self.rises)
        )
        return History(start=start, law=law, mean=mean, rises=rises)


class Growth:
    """p' ~ p exp(m log(p / mean)), where m marks the tokens that have grown `rounds` times in a row.

    The paper gives the form and three rounds; the weight of the average and that of the prior, 1, are ours.
    Without `rounds` + 1 rounds of history p' is p. Drafts are recorded as drawn from p', so that it may be
    any law at all.
    """

    def __init__(self, options: GrowthPosterior) -> None:
        self.options = options

    def __call__(
        self, drafts: Drafts, start: int, history: History | None
    ) -> tuple[Float[Tensor, "N m V"], History]:
        """The laws of the next drafts at positions `start..`, and the history with this round in it."""
        p, fresh = drafts.p, (drafts.age == 0)[..., None]
        if history is None:
            history = History(start=start, law=p, mean=p, rises=torch.zeros_like(p, dtype=torch.int))
        past = history.at(start, p.shape[1])
        rises = (past.rises + 1) * ((p > past.law) & ~fresh)
        growing = rises >= self.options.rounds
        # What grows has mass, so no 0/0; the floor is for a token that the law before had left out.
        gain = torch.where(growing, p / past.mean.clamp(min=torch.finfo(p.dtype).tiny), 1).log()
        posterior = (p.log() + gain).softmax(-1)
        laws = torch.where(growing.any(-1, keepdim=True), posterior, p)
        mean = torch.where(fresh, p, torch.lerp(p, past.mean, self.options.memory))
        return laws, History(start=start, law=p, mean=mean, rises=rises)
