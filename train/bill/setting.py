"""What a bill is made from: the options of a run, and its backbone and heads as shapes without values."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from backbones.contract import Backbone, Sampling
from backbones.footprint import Footprint
from backbones.registry import load_backbone, rollout_prompts
from backbones.rehearsal import rehearsal
from conf.schema import TrainJob
from decoding.prompts import read_prompts
from decoding.room import ROWS_AT_ONCE, Painting, branches, painting
from heads.contract import DraftHeads
from heads.kinds import build_heads
from heads.options import parse_heads


@dataclass(frozen=True, kw_only=True)
class Pixels:
    """Images of a backbone; 0 by 0 where it has no VQ."""

    height: int
    width: int
    first: int
    """Bytes of work for one image."""
    further: int
    """Bytes for each further one that is decoded with it."""

    def work(self, images: int) -> int:
        """Bytes for some images."""
        return self.first + (images - 1) * self.further


@dataclass(frozen=True)
class Setting:
    """A job beside the shapes of what it trains with."""

    job: TrainJob
    backbone: Backbone
    """Without values."""
    device: str
    """`cpu` or `cuda`: what the run will be on."""

    @cached_property
    def footprint(self) -> Footprint:
        """Of the backbone."""
        return Footprint(self.backbone, self.device)

    @cached_property
    def sampling(self) -> Sampling:
        """How rollouts are drawn."""
        given = {name: value for name, value in asdict(self.job.sampling).items() if value is not None}
        return replace(self.backbone.sampling, **given)

    @cached_property
    def prompts(self) -> Sequence[str]:
        """What rollouts show."""
        file = self.job.rollouts.prompts
        return read_prompts(Path(file)) if file else rollout_prompts(self.job.model.name)

    @cached_property
    def prompt(self) -> int:
        """Slots of the longest prompt."""
        return self.footprint.longest(self.prompts)

    @cached_property
    def sampled(self) -> Painting:
        """What an image takes that is painted token by token."""
        return painting(self.footprint, self.sampling, self.prompt, 1)

    @cached_property
    def drafted(self) -> Painting:
        """What an image takes whose decoder drafts rows."""
        block = min(ROWS_AT_ONCE, self.backbone.grid.rows) * self.backbone.grid.cols
        return painting(self.footprint, self.sampling, self.prompt, block)

    @cached_property
    def pixels(self) -> "Pixels":
        """What turning tokens into images takes."""
        peaks, shape = [], (0, 0)
        for images in (1, 2):
            with rehearsal() as memory:
                made = self.footprint.pixels(images)
            peaks.append(memory.peak)
            if made is not None:
                shape = (made.shape[-2], made.shape[-1])
        return Pixels(height=shape[0], width=shape[1], first=peaks[0], further=peaks[1] - peaks[0])

    @cached_property
    def heads(self) -> DraftHeads:
        """The draft heads, without values."""
        kind, options = parse_heads(self.job.heads)
        with torch.device("meta"):
            return build_heads(kind, self.backbone.width, options)

    @cached_property
    def weights(self) -> int:
        """Weights that are trained."""
        return sum(weight.numel() for weight in self.heads.parameters())

    @cached_property
    def largest_part(self) -> int:
        """Weights of the largest piece of the heads."""
        parts = self.heads.parts().values()
        return max(sum(weight.numel() for weight in part.parameters()) for part in parts)

    @property
    def branches(self) -> int:
        """Rows of an image: two with guidance."""
        return branches(self.sampling)

    @property
    def rows(self) -> int:
        """Rows of a batch in training: images and guidance branches."""
        return self.job.trainer.batch * self.branches

    @property
    def processes(self) -> int:
        """Processes that train, on all nodes."""
        return self.job.trainer.devices * self.job.trainer.nodes

    @property
    def step_images(self) -> int:
        """Images an optimiser step, over all processes."""
        return self.job.trainer.batch * self.processes * self.job.trainer.accumulate

    def changed(self, section: str, **options: Any) -> "Setting":
        """The same with other options in a section; what does not depend on them is not computed again."""
        return self._with(replace(self.job, **{section: replace(getattr(self.job, section), **options)}))

    def with_heads(self, **options: Any) -> "Setting":
        """The same with other options of the heads."""
        job = replace(self.job, heads={**self.job.heads, **options})
        return self._with(job, "heads", "weights", "largest_part")

    def _with(self, job: TrainJob, *forgotten: str) -> "Setting":
        other = Setting(job, self.backbone, self.device)
        kept = {name: value for name, value in vars(self).items() if name not in (*vars(other), *forgotten)}
        other.__dict__.update(kept)
        return other


def published(job: TrainJob, device: str) -> Setting:
    """The setting of a job with the published shape of its model; no weights are read."""
    model = asdict(job.model) | {"weights": "random", "device": "meta"}
    for name in ("tokenizer", "pixels", "text_encoder"):
        model[name] = None
    return Setting(job, load_backbone(**model), device)
