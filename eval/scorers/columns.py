"""The scorers as columns of a benchmark: from an image in its log to named scores."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
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


class SampleColumns:
    """Paints a logged image's pixels and has it judged; both are kept, so that asking again is cheap."""

    def __init__(
        self,
        backbone: Backbone,
        scorers: Sequence[Scorer],
        folder: Path,
        metadata: Callable[[Sample], Mapping[str, Any] | None] = lambda _: {},
    ) -> None:
        """Opens the scorers' logs.

        Args:
            backbone: whose tokens the images are.
            scorers: one a column.
            folder: of the pictures and the logs.
            metadata: what the prompt set says of an image's prompt: GenEval's line, DPG-Bench's `item_id`;
                none for an image that cannot be judged.

        Raises:
            RowcastError: if the folder can't be written or a log can't be read.
        """
        self.backbone, self.scorers, self.folder, self.metadata = backbone, scorers, folder, metadata
        self._logs = [ScoreLog(folder, scorer.protocol, scorer.contract) for scorer in scorers]

    def __call__(self, sample: Sample) -> dict[str, float]:
        """The image's scores by protocol; none for one that cannot be judged.

        Raises:
            RowcastError: if a picture or its metadata can't be judged, or the folder can't be written.
        """
        metadata = self.metadata(sample)
        if metadata is None:
            return {}
        picture = Picture(
            key="/".join([sample.decoder, sample.role, sample.prompt, str(sample.sample)]),
            path=self._paint(sample.tokens),
            prompt=sample.prompt,
            group=str(metadata.get("item_id", sample.prompt)),
            metadata=metadata,
        )
        fingerprint, scores = picture.fingerprint(), {}
        for scorer, log in zip(self.scorers, self._logs, strict=True):
            if fingerprint not in log.scores:
                log.add([(fingerprint, picture.key, scorer.score([picture])[0])])
            scores |= log.scores[fingerprint].scores
        return scores

    def _paint(self, tokens: Sequence[int]) -> Path:
        """The picture of some tokens, whose file is named by them."""
        asked = json.dumps([self.backbone.fingerprint, list(tokens)])
        path = self.folder / "pictures" / f"{hashlib.sha256(asked.encode()).hexdigest()[:24]}.png"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = self.backbone.decode(torch.tensor([list(tokens)], device=self.backbone.device))[0]
            save_png(Image.fromarray(pixels.permute(1, 2, 0).cpu().numpy()), path)
        return path
