"""SJD-VP (arXiv 2603.27115): draft what is likely to be accepted, judged by how its probability moves.

From one round to the next, tokens whose probability keeps growing are more often those that stand in the end.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from decoding.options.jacobi import GrowthPosterior
from decoding.rules.rule import Drafts
from decoding.session import Session


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

    def at(self, start: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """The three at positions `start..start+count`; zeros where there is no history yet."""
        kept = slice(start - self.start, None)
        missing = count - (self.law.shape[1] - kept.start)
        law, mean, rises = (
            torch.nn.functional.pad(rows[:, kept], (0, 0, 0, missing))
            for rows in (self.law, self.mean, self.rises)
        )
        return law, mean, rises


class Growth:
    """p' ~ p exp(m log(p / mean)), where m marks the tokens that have grown `rounds` times in a row.

    The paper gives the form and three rounds; the weight of the average and that of the prior, 1, are ours.
    Without `rounds` + 1 rounds of history p' is p. Drafts are recorded as drawn from p', so that it may be
    any law at all.
    """

    def __init__(self, options: GrowthPosterior) -> None:
        self.options = options

    def __call__(self, session: Session, drafts: Drafts) -> Float[Tensor, "N m V"]:
        """The laws of the next drafts; remembers this round's `drafts.p`."""
        p, start = drafts.p, session.committed
        fresh = (drafts.age == 0)[..., None]
        rises = torch.zeros_like(p, dtype=torch.int)
        history: History = session.memory.get("growth") or History(start=start, law=p, mean=p, rises=rises)
        before, mean, rises = history.at(start, p.shape[1])
        rises = (rises + 1) * ((p > before) & ~fresh)
        growing = rises >= self.options.rounds
        session.memory["growth"] = History(
            start=start,
            law=p,
            mean=torch.where(fresh, p, torch.lerp(p, mean, self.options.memory)),
            rises=rises,
        )
        # What grows has mass, so no 0/0; the floor is for a token that the law before had left out.
        gain = torch.where(growing, p / mean.clamp(min=torch.finfo(p.dtype).tiny), 1).log()
        posterior = (p.log() + gain).softmax(-1)
        return torch.where(growing.any(-1, keepdim=True), posterior, p)
