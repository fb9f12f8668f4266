"""What the doctor looks at: heads, what they are used with, and images that show what they predict."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from tqdm import tqdm

from backbones.contract import Backbone, Sampling
from checkpoints.config import BundleConfig
from data.harvest import harvest
from data.shards import Rollout, image_key
from decoding.engine import generate
from decoding.methods.ar import WatchedAR
from decoding.methods.method import Method
from decoding.noise import Noise
from eval.doctor.prediction import Evidence
from heads.bank import PredictorBank
from heads.contract import DraftHeads


@dataclass(frozen=True, kw_only=True)
class Case:
    """Heads that draft badly, and what they are used with."""

    config: BundleConfig
    heads: DraftHeads
    backbone: Backbone
    sampling: Sampling
    """Of the decoding that disappoints."""
    painter: Method | None
    """Decodes with the heads, to count what is accepted; none where these heads cannot read these states."""
    painter_name: str
    rollouts: Sequence[Rollout]
    """Images of the backbone, to ask the heads about."""
    seed: int

    @property
    def not_asked(self) -> str:
        """Why there is no evidence."""
        if self.heads.width != self.backbone.width:
            return f"heads of width {self.heads.width} cannot read states of width {self.backbone.width}"
        return f"{self.config.heads.name} heads predict by a drafter, which is not asked by place"

    @property
    def retrain(self) -> str:
        """The advice where nothing but other heads helps."""
        kind = "" if self.config.heads.name == "ssd" else f" heads={self.config.heads.name}"
        return f"train them again with python -m train +model={self.config.backbone.name}{kind}"

    @cached_property
    def evidence(self) -> Evidence | None:
        """What the heads predict on those images; none for kinds without predictors, or of another width."""
        if not isinstance(self.heads, PredictorBank) or self.heads.width != self.backbone.width:
            return None
        found = harvest(self.backbone, self.rollouts, guided=True)
        with torch.no_grad():
            normed = self.backbone.parts["norm"](found.states)
        return Evidence(
            bank=self.heads,
            grid=self.backbone.grid,
            states=found.states,
            normed=normed,
            embeddings=found.embeddings,
        )


def paint_plainly(backbone: Backbone, prompts: Sequence[str], sampling: Sampling, seed: int) -> list[Rollout]:
    """An image a prompt by autoregression, as rollouts are made; shows a bar in tokens."""
    noise = Noise(seed, prompts, [0] * len(prompts))
    with tqdm(total=backbone.grid.size, desc="painting", unit="token", leave=False, disable=None) as bar:
        tokens = generate(backbone, prompts, WatchedAR(bar), noise, sampling).tokens.cpu()
    return [
        Rollout(key=image_key(image), prompt=prompt, tokens=row, seed=seed, sample=0)
        for image, (prompt, row) in enumerate(zip(prompts, tokens, strict=True))
    ]
