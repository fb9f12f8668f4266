"""The scorers as columns of a benchmark: from images in its log to named scores."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from backbones.contract import Backbone
from eval.samples import Sample
from eval.scorers.layouts import save_png
from eval.scorers.log import ScoreLog
from eval.scorers.pictures import Picture
from eval.scorers.scorer import Scorer

PICTURES = "pictures"


@dataclass(frozen=True, kw_only=True)
class Judge:
    """A scorer, and the images that it can judge."""

    scorer: Scorer
    set: str | None = None
    """Those of this prompt set's prompts; none: all."""

    def takes(self, metadata: Mapping[str, Any]) -> bool:
        """Whether it can judge the image of such a prompt."""
        return self.set is None or metadata.get("set") == self.set


class SampleColumns:
    """Paints logged images' pixels and has them judged; both are kept, so that asking again is cheap.

    The pictures lie in a folder a decoder, for scores of whole sets: `pictures/ssd-main`.
    """

    def __init__(
        self,
        backbone: Backbone,
        judges: Sequence[Judge],
        folder: Path,
        metadata: Callable[[Sample], Mapping[str, Any]],
    ) -> None:
        """Opens the scorers' logs.

        Args:
            backbone: whose tokens the images are.
            judges: one a column.
            folder: of the pictures and the logs.
            metadata: what the prompt set says of an image's prompt: its `set`, GenEval's line, DPG-Bench's
                `item_id`.

        Raises:
            RowcastError: if the folder can't be written or a log can't be read.
        """
        self.backbone, self.judges, self.folder, self.metadata = backbone, judges, folder, metadata
        self._logs = [ScoreLog(folder, judge.scorer.protocol, judge.scorer.contract) for judge in judges]

    def names(self, sample: Sample) -> set[str]:
        """The columns that an image gets."""
        metadata = self.metadata(sample)
        return {judge.scorer.protocol for judge in self.judges if judge.takes(metadata)}

    def __call__(self, samples: Sequence[Sample]) -> list[dict[str, float]]:
        """The images' scores by protocol.

        Raises:
            RowcastError: if a picture or its metadata can't be judged, or the folder can't be written.
        """
        pictures = self._pictures(samples)
        prints = [picture.fingerprint() for picture in pictures]
        scores: list[dict[str, float]] = [{} for _ in samples]
        for judge, log in zip(self.judges, self._logs, strict=True):
            own = [place for place, picture in enumerate(pictures) if judge.takes(picture.metadata)]
            new = {prints[place]: pictures[place] for place in own if prints[place] not in log.scores}
            if new:
                judged = judge.scorer.score(list(new.values()))
                keyed = zip(new.items(), judged, strict=True)
                log.add([(print_, picture.key, score) for (print_, picture), score in keyed])
            for place in own:
                scores[place] |= log.scores[prints[place]].scores
        return scores

    def _pictures(self, samples: Sequence[Sample]) -> list[Picture]:
        paths = self._paint(samples)
        metadata = [self.metadata(sample) for sample in samples]
        return [
            Picture(
                key="/".join([sample.decoder, sample.role, sample.prompt, str(sample.sample)]),
                path=path,
                prompt=sample.prompt,
                group=str(told.get("item_id", sample.prompt)),
                metadata=told,
            )
            for sample, path, told in zip(samples, paths, metadata, strict=True)
        ]

    def _paint(self, samples: Sequence[Sample]) -> list[Path]:
        """The files of the images' pictures, which are named by their tokens; those missing are written."""
        paths = [self._path(sample) for sample in samples]
        missing = [place for place, path in enumerate(paths) if not path.is_file()]
        if missing:
            tokens = torch.tensor([samples[place].tokens for place in missing])
            pixels = self.backbone.decode(tokens.to(self.backbone.device)).permute(0, 2, 3, 1).cpu()
            for place, image in zip(missing, pixels, strict=True):
                paths[place].parent.mkdir(parents=True, exist_ok=True)
                save_png(Image.fromarray(image.contiguous().numpy()), paths[place])
        return paths

    def _path(self, sample: Sample) -> Path:
        asked = json.dumps([self.backbone.fingerprint, list(sample.tokens)])
        name = hashlib.sha256(asked.encode()).hexdigest()[:24]
        return self.folder / PICTURES / f"{sample.decoder}-{sample.role}" / f"{name}.png"
