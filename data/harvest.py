"""Harvest: the backbone's own states of archived images, by one teacher-forced forward; never stored."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from backbones.contract import Backbone, Prompt
from backbones.errors import RowcastError
from data.shards import Rollout, check_tokens

TOLERANCES = {torch.float32: (1e-3, 0.99), torch.bfloat16: (5e-2, 0.9), torch.float16: (2e-2, 0.9)}
"""dtype -> (largest error as a part of the largest logit, least top-1 agreement)."""
BLOCK = 256
"""Tokens fed at a time where a session is kept."""


@dataclass(frozen=True, kw_only=True)
class Harvest:
    """What the draft heads are trained on; conditional rows first, then unconditional ones."""

    states: Float[Tensor, "GN P D"]
    """Pre-norm emission states: entry p is the state whose logits are the law of token p."""
    embeddings: Float[Tensor, "GN P D"]
    """What the trunk is fed for token p."""


@dataclass(frozen=True, kw_only=True)
class HarvestCheck:
    """How well `head(harvested state)` reproduces the logits of step-by-step decoding."""

    error: float
    """Largest absolute difference of a logit."""
    scale: float
    """Largest absolute logit."""
    agreement: float
    """Part of the positions with the same most likely code."""


def harvest(
    backbone: Backbone, rollouts: Sequence[Rollout], guided: bool = True, *, session: bool = False
) -> Harvest:
    """States and embeddings of whole images.

    Args:
        backbone: The frozen model that the images were sampled from.
        rollouts: N images.
        guided: Whether the unconditional branch is harvested too (G = 2).
        session: Whether to feed the images into a session that stays open, with all tokens but the last, so
            that more can be asked of them.

    Raises:
        RowcastError: if an image's tokens are not this backbone's, or a state is not finite.
    """
    tokens = _tokens(backbone, rollouts)
    with torch.no_grad():
        prompt = backbone.encode([rollout.prompt for rollout in rollouts], guided)
        states = _walk(backbone, prompt, tokens) if session else backbone.states(prompt, tokens)
        embeddings = backbone.embed(tokens)
    finite = states.isfinite().flatten(1).all(1)
    if not finite.all():
        key = rollouts[int(finite.logical_not().nonzero()[0]) % len(rollouts)].key
        raise RowcastError(
            f"expected finite states of image {key}, found NaN or infinity: "
            "set model.dtype=float32, or check the model's weights"
        )
    branches = states.shape[0] // len(rollouts)
    return Harvest(states=states, embeddings=embeddings.repeat(branches, 1, 1))


def check_harvest(
    backbone: Backbone, rollouts: Sequence[Rollout], *, tokens: int = 8, guided: bool = True
) -> HarvestCheck:
    """Proves on a few images that harvested states are the ones that decoding sees.

    A wrong norm side, a shifted position or a mispadded prompt all leave the training loss looking well;
    they show here.

    Args:
        backbone: The frozen model; its open session, if any, is replaced.
        rollouts: N images; a few are enough.
        tokens: How many of each image's first positions are compared.
        guided: As in `harvest`.

    Raises:
        RowcastError: if error or agreement is outside `TOLERANCES`; both are named.
    """
    states = harvest(backbone, rollouts, guided).states
    ids = _tokens(backbone, rollouts)
    length = min(tokens, backbone.grid.size)
    with torch.no_grad():
        steps = [backbone.begin(backbone.encode([rollout.prompt for rollout in rollouts], guided))]
        steps += [backbone.forward(ids[:, t : t + 1]) for t in range(length - 1)]
        live = torch.cat([step.logits for step in steps], dim=1)
        harvested = backbone.head(states[:, :length])
    check = HarvestCheck(
        error=float((live - harvested).abs().max()),
        scale=float(live.abs().max()),
        agreement=float((live.argmax(-1) == harvested.argmax(-1)).float().mean()),
    )
    relative, agreement = TOLERANCES[backbone.dtype]
    # Written so that a NaN fails too.
    if not (check.error <= relative * check.scale and check.agreement >= agreement):
        raise RowcastError(
            f"expected harvested states to give the live logits within {relative * check.scale:.3g} "
            f"and the same best code in {agreement:.0%}, found an error of {check.error:.3g} "
            f"and {check.agreement:.1%}: {backbone.name} taps or pads its states wrongly, run its tests"
        )
    return check


def _walk(backbone: Backbone, prompt: Prompt, tokens: Int[Tensor, "N P"]) -> Float[Tensor, "GN P D"]:
    """States of whole images by a session, in blocks whose logits fit into memory."""
    parts = [backbone.begin(prompt).hidden]
    parts += [backbone.forward(block).hidden for block in tokens[:, :-1].split(BLOCK, dim=1)]
    return torch.cat(parts, 1)


def _tokens(backbone: Backbone, rollouts: Sequence[Rollout]) -> Int[Tensor, "N P"]:
    """The images' tokens on the backbone's device."""
    for rollout in rollouts:
        check_tokens(rollout, backbone.grid, backbone.codes)
    return torch.stack([rollout.tokens for rollout in rollouts]).to(backbone.device)
