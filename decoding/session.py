"""The images being painted: tokens, exact states, and the block of drafts under refinement.

Positions are raster indices. At all times `cached <= committed <= end`:

    0 .. cached      in the backbone's cache; their states, and the one that emits `cached`, are exact
    .. committed     final tokens, not fed yet
    .. end           drafts; `q` holds the law that each was drawn from
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from backbones.contract import Backbone, Step
from decoding.generation import Trace
from decoding.kernel import sample
from decoding.noise import Noise
from decoding.warp import Warp


class Session:
    """What a method sees and moves; the engine feeds `tokens[cached:end]`."""

    def __init__(self, backbone: Backbone, warp: Warp, noise: Noise, branches: int, first: Step) -> None:
        """Opens on the prefill `first`, which emits position 0."""
        grid, device, images = backbone.grid, backbone.device, noise.images
        self.backbone, self.grid, self.branches = backbone, grid, branches
        self.trace = Trace(forwards=1, order=[0] * grid.size)
        self.cached = self.committed = self.end = 0
        self.tokens: Int[Tensor, "N P"] = torch.zeros(images, grid.size, dtype=torch.long, device=device)
        # One more than P: the last token's output would emit a token after the image.
        self.states: Float[Tensor, "GN P1 D"] = first.hidden.new_empty(
            len(first.hidden), grid.size + 1, backbone.width
        )
        self.states[:, :1] = first.hidden
        self.next_law: Float[Tensor, "N V"] = warp(first.logits, branches)[:, 0]
        """Exact law of position `cached`, while that is not final."""
        self.q: Float[Tensor, "N m V"] = self.next_law[:, None][:, :0]
        """Laws of the drafts `committed..end`."""
        self.labels = ["exact"] * grid.size
        """What drafted each position."""
        self.ages = [0] * grid.size
        """Rounds that each position has been through."""
        self.steps = 0
        """Blocks fed so far."""
        self.memory: dict[str, Any] = {}
        """What the method itself remembers about these images from one forward to the next."""
        self._warp, self._noise = warp, noise
        greedy = warp.sampling.temperature == 0
        self._likely = Warp(replace(warp.sampling, temperature=1.0)) if greedy else warp

    def law(self, logits: Float[Tensor, "GN T V"]) -> Float[Tensor, "N T V"]:
        """Probabilities of the guided law."""
        return self._warp(logits, self.branches)

    def likelihoods(self, logits: Float[Tensor, "GN T V"]) -> Float[Tensor, "N T V"]:
        """What to rank candidates by: the guided law, at temperature 1 where greedy decoding has one code."""
        return self._likely(logits, self.branches)

    def uniform(self, count: int) -> Float[Tensor, "N count"]:
        """The next random numbers of every image."""
        return self._noise.uniform(count).to(self.tokens.device, non_blocking=True)

    def draw_next(self) -> None:
        """Draws position `cached` from its exact law: final at once."""
        if not self.cached == self.committed == self.end:
            raise ValueError("an exact token can only follow the cache directly")
        self.tokens[:, self.end] = sample(self.next_law, self.uniform(1)[:, 0])
        self.note_final(range(self.end, self.end + 1))
        self.committed = self.end = self.end + 1

    def pairs(self, start: int, stop: int) -> tuple[Float[Tensor, "GN K D"], Float[Tensor, "GN K D"]]:
        """Head inputs at positions `start..stop`: the state that emits each token, the token's embedding."""
        embeddings = self.backbone.embed(self.tokens[:, start:stop])
        return self.states[:, start:stop], embeddings.repeat(self.branches, 1, 1)

    def draft(self, predicted: Float[Tensor, "GN K D"], labels: Sequence[str]) -> None:
        """Draws the next K positions from the laws of predicted states."""
        q = self.law(self.backbone.head(predicted.to(self.backbone.dtype)))
        self.place(sample(q, self.uniform(q.shape[1])), q, labels)

    def place(self, tokens: Int[Tensor, "N K"], q: Float[Tensor, "N K V"], labels: Sequence[str]) -> None:
        """Puts drafts, and the laws that they were drawn from, at the next K positions."""
        stop = self.end + q.shape[1]
        self.tokens[:, self.end : stop] = tokens
        self.labels[self.end : stop] = labels
        self.ages[self.end : stop] = [0] * q.shape[1]
        self.q = torch.cat([self.q, q], 1)
        self.end = stop

    def finalise(self, committed: int) -> None:
        """Declares the tokens before `committed` final."""
        if not self.committed <= committed <= self.end:
            raise ValueError(f"cannot finalise {committed}: drafts reach from {self.committed} to {self.end}")
        self.q = self.q[:, committed - self.committed :]
        self.note_final(range(self.committed, committed))
        self.committed = committed

    def note_final(self, places: Iterable[int]) -> None:
        """Notes for the trace that the tokens at these places are final after this forward, if not before."""
        for place in places:
            self.trace.order[place] = self.trace.order[place] or self.trace.forwards
