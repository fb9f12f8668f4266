"""FID and KID of two folders of images under three presets.

`sjd` and `lantern` repeat the papers of those names: both take the Inception features of 2015, and differ in
what they do to the image before. `clean` crops the square in the middle and resizes with antialiasing.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor, nn

from eval.scorers.backends.inception_weights import HASH
from eval.scorers.distances import SUBSET, SUBSETS, frechet_inception_distance, kernel_inception_distance
from eval.scorers.pictures import Picture
from eval.scorers.preparations import (
    Preparation,
    centre_square,
    clean_fid_input,
    pytorch_fid_input,
    square_256,
    unchanged,
)
from eval.scorers.scorer import ImageScore
from eval.statistics import Interval

FEW = 2048
"""Images below which the covariance of as many features cannot be of full rank."""
PUBLISHED = 5000
"""Images of COCO 2017 val, in papers."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """How one line of papers shows images to the Inception network."""

    prepare: Preparation
    """Of the picture, generated or real."""
    enter: Callable[[Image.Image], Tensor]
    """From the picture to the network's input."""


PRESETS = {
    "clean": Preset(prepare=centre_square, enter=clean_fid_input),
    "sjd": Preset(prepare=unchanged, enter=pytorch_fid_input),
    "lantern": Preset(prepare=square_256, enter=clean_fid_input),
}


class Features:
    """The scorer: an image's features, kept in the log, so that a reference is looked at once."""

    def __init__(self, network: nn.Module, weights: str, preset: str) -> None:
        """Takes a loaded network.

        Args:
            network: from images [N, 3, 299, 299] to features [N, F].
            weights: sha256 of its file.
            preset: one of `PRESETS`.
        """
        self.network, self.weights, self.preset = network, weights, PRESETS[preset]
        self.suffix = preset if weights.startswith(HASH) else f"{preset}+weights-{weights[:8]}"
        self.protocol = f"features/{self.suffix}"
        self._parameter = next(network.parameters())

    @property
    def contract(self) -> Mapping[str, Any]:
        """The weights and the type of numbers."""
        return {"inception": self.weights, "dtype": str(self._parameter.dtype).removeprefix("torch.")}

    @torch.inference_mode()
    def score(self, pictures: Sequence[Picture]) -> list[ImageScore]:
        """As `Scorer.score`: no score, but features in the detail.

        Raises:
            RowcastError: if a picture can't be read.
        """
        inputs = torch.stack([self.preset.enter(self.preset.prepare(picture.load())) for picture in pictures])
        features = self.network(inputs.to(self._parameter.device, self._parameter.dtype)).float().cpu()
        return [ImageScore(scores={}, detail={"features": _packed(row)}) for row in features]


def distances(
    reference: Sequence[ImageScore], samples: Sequence[ImageScore]
) -> tuple[dict[str, Interval], list[str]]:
    """FID and KID of the features of two sets, and what a reader has to know of them.

    Neither has an interval: FID is biased by the number of images, and the spread of KID's subsets, which
    the notes tell, is not that of the whole set.

    Args:
        reference: real images, or another decoder's.
        samples: what is judged.

    Raises:
        RowcastError: if a set holds fewer than two images.
    """
    a, b = unpacked(reference), unpacked(samples)
    kid, spread = kernel_inception_distance(a, b)
    values = {
        "fid": Interval(value=frechet_inception_distance(a, b), low=None, high=None, n=len(b)),
        "kid": Interval(value=kid, low=None, high=None, n=len(b)),
    }
    size = min(SUBSET, len(a), len(b))
    notes = [
        f"KID is the mean over {SUBSETS} subsets of {size} images, whose standard deviation is {spread:.2g}"
    ]
    if min(len(a), len(b)) < FEW:
        notes.append(f"FID of fewer than {FEW} images is dominated by their number: read KID")
    if len(a) != len(b):
        notes.append(f"{len(b)} images against {len(a)}: compare with FIDs at these numbers alone")
    if len(b) != PUBLISHED:
        notes.append(f"{len(b)} images, where papers on COCO 2017 val paint {PUBLISHED}")
    return values, notes


def unpacked(scores: Sequence[ImageScore]) -> Float[Tensor, "N F"]:
    """The features in the details of scores."""
    rows = [np.frombuffer(base64.b64decode(score.detail["features"]), "<f4") for score in scores]
    return torch.from_numpy(np.stack(rows))


def _packed(features: Float[Tensor, " F"]) -> str:
    return base64.b64encode(features.numpy().astype("<f4").tobytes()).decode()
