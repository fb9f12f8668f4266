"""CLIP-score under three presets: cosine of an image's and its prompt's CLIP features, times 100.

`sjd` and `lantern` repeat the papers of those names, which differ in model, in what is done to the image
before, and in text; `clean` shows CLIP the image as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval.scorers.backends.clip import Clip
from eval.scorers.pictures import Picture
from eval.scorers.preparations import Preparation, square_256_through_floats, squashed_299, unchanged
from eval.scorers.results import prompt_interval
from eval.scorers.scorer import ImageScore
from eval.statistics import Interval


@dataclass(frozen=True, kw_only=True)
class Preset:
    """How one line of papers computes CLIP-score."""

    model: str
    """Hub id of the CLIP model."""
    prepare: Preparation
    """What is done to the image before CLIP's own preparation."""
    prefix: str = ""
    """Words before every prompt."""


PRESETS = {
    "clean": Preset(model="openai/clip-vit-large-patch14", prepare=unchanged),
    "sjd": Preset(model="openai/clip-vit-base-patch16", prepare=squashed_299),
    "lantern": Preset(
        model="openai/clip-vit-base-patch32", prepare=square_256_through_floats, prefix="A photo depicts"
    ),
}


class ClipScore:
    """The scorer. Prompts longer than CLIP's text lose their end, and the detail says so."""

    def __init__(self, clip: Clip, preset: str) -> None:
        self.clip, self.preset = clip, PRESETS[preset]
        published = clip.name == self.preset.model.rpartition("/")[2]
        self.protocol = f"clip/{preset}" if published else f"clip/{preset}+{clip.name}"

    @property
    def contract(self) -> Mapping[str, Any]:
        """Models and options."""
        return {"clip": self.clip.record, "prefix": self.preset.prefix}

    def score(self, pictures: Sequence[Picture]) -> list[ImageScore]:
        """As `Scorer.score`.

        Raises:
            RowcastError: if a picture can't be read.
        """
        seen = self.clip.see([self.preset.prepare(picture.load()) for picture in pictures])
        read = self.clip.read([picture.prompt for picture in pictures], self.preset.prefix)
        cosines = (seen * read).sum(1).tolist()
        cut = [self.clip.tokens(picture.prompt, self.preset.prefix)[1] for picture in pictures]
        return [
            ImageScore(scores={self.protocol: 100 * cosine}, detail={"cut": was})
            for cosine, was in zip(cosines, cut, strict=True)
        ]


def summarise(
    pictures: Sequence[Picture], scores: Sequence[ImageScore]
) -> tuple[dict[str, Interval], list[str]]:
    """The mean (not below 0, as torchmetrics has it), and what a reader has to know of it.

    Args:
        pictures: the set.
        scores: of each.
    """
    values = [next(iter(score.scores.values())) for score in scores]
    mean = prompt_interval([picture.group for picture in pictures], values)
    mean = Interval(value=max(mean.value, 0.0), low=mean.low, high=mean.high, n=mean.n)
    cut = sum(score.detail["cut"] for score in scores)
    notes = [f"{cut} of {len(scores)} prompts were longer than CLIP reads, and were cut"] if cut else []
    return {"clip": mean}, notes
