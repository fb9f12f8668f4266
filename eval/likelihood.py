"""How likely the backbone finds an image: the most sensitive quality measure of a lossy decoder.

Two laws are reported. *Guided* is the law that sampling uses, conditional and unconditional branches mixed
at its temperature, but before top-k and top-p: those set probabilities to zero, and one such token in an
image would make it infinitely unlikely. *Conditional* is the plain p(token | prompt, tokens before).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from backbones.contract import Backbone, Sampling
from decoding.warp import Warp

_POSITIONS = 256


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """Mean negative log-likelihood per token (nats) of one image under the backbone."""

    guided: float
    conditional: float


@torch.no_grad()
def likelihoods(
    backbone: Backbone, prompts: Sequence[str], tokens: Int[Tensor, "N P"], sampling: Sampling
) -> list[Likelihood]:
    """Mean negative log-likelihood per token (nats) of each image, by one teacher-forced forward."""
    branches = 1 if sampling.guidance == 1 else 2
    guided = Warp(Sampling(guidance=sampling.guidance, temperature=sampling.temperature or 1.0))
    conditional = Warp(Sampling(guidance=1.0))
    states = backbone.states(backbone.encode(prompts, guided=branches == 2), tokens)
    images, length = tokens.shape
    totals = torch.zeros(2, images, dtype=torch.float64)
    for start in range(0, length, _POSITIONS):
        part = slice(start, start + _POSITIONS)
        logits = backbone.head(states[:, part])
        chosen = tokens[:, part].to(logits.device)
        totals[0] += _surprise(guided(logits, branches), chosen)
        totals[1] += _surprise(conditional(logits[:images], 1), chosen)
    return [Likelihood(guided=one, conditional=other) for one, other in (totals / length).T.tolist()]


def _surprise(law: Float[Tensor, "N T V"], tokens: Int[Tensor, "N T"]) -> Float[Tensor, " N"]:
    """Summed -log of the tokens' probabilities, on the CPU; fp32 underflow counts as its smallest number."""
    chosen = law.gather(2, tokens[..., None])[..., 0].double()
    return -chosen.clamp(min=torch.finfo(torch.float32).tiny).log().sum(1).cpu()
