"""A detector for flat drawings: it really looks at the pixels, and knows three shapes in ten colours.

For synthetic images with known answers, to prove a whole pipeline where no weights can be had. On a
photograph or a generator's image its answers mean nothing.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int
from PIL import Image

from eval.scorers.backends.mask2former import extent
from eval.scorers.geneval import Detection

PALETTE = {
    "red": (255, 0, 0),
    "orange": (255, 140, 0),
    "yellow": (255, 255, 0),
    "green": (0, 160, 0),
    "blue": (0, 0, 255),
    "purple": (128, 0, 128),
    "pink": (255, 170, 200),
    "brown": (120, 70, 20),
    "black": (0, 0, 0),
    "white": (255, 255, 255),
}
SHAPES = {"book": 1.0, "sports ball": np.pi / 4, "kite": 0.5}
"""Share of its box that a shape fills: squares are books, discs balls, diamonds kites."""
SMALLEST = 9
"""Pixels of an object."""


class Shapes:
    """Finds flat squares, discs and diamonds, and tells their colours; the corner shows the background."""

    name = "shapes"
    record: dict[str, str | None] = {}  # noqa: RUF012

    def detect(self, images: Sequence[Image.Image]) -> list[list[Detection]]:
        """Every connected patch of one colour that is not the background's."""
        return [self._patches(np.asarray(image)) for image in images]

    def colours(self, image: Image.Image, detections: Sequence[Detection], name: str) -> list[str]:
        """The colour of the palette next to the mean inside each mask."""
        pixels = np.asarray(image, np.float64)
        named = np.asarray(list(PALETTE.values()), np.float64)
        means = [pixels[found.mask].mean(0) for found in detections]
        return [list(PALETTE)[int(((named - mean) ** 2).sum(1).argmin())] for mean in means]

    def _patches(self, pixels: np.ndarray) -> list[Detection]:
        colours = pixels.astype(np.int64) @ np.array([65536, 256, 1])
        labels = components(colours)
        found = []
        for label in np.unique(labels[colours != colours[0, 0]]):
            mask = labels == label
            if mask.sum() < SMALLEST:
                continue
            left, top, right, bottom = box = extent(mask)
            filled = float(mask.sum() / ((right - left) * (bottom - top)))
            name = min(SHAPES, key=lambda shape: abs(SHAPES[shape] - filled))
            found.append(Detection(name=name, score=1 - abs(SHAPES[name] - filled), box=box, mask=mask))
        return found


def components(colours: Int[np.ndarray, "H W"]) -> Int[np.ndarray, "H W"]:
    """A label for every pixel, equal where pixels of one colour touch side by side: a patch's least index."""
    labels = np.arange(colours.size).reshape(colours.shape)
    joined: list[tuple[int, Bool[np.ndarray, "A B"]]] = [
        (axis, np.diff(colours, axis=axis) == 0) for axis in (0, 1)
    ]
    while True:
        before = labels.copy()
        for axis, same in joined:
            first, second = (labels[:-1], labels[1:]) if axis == 0 else (labels[:, :-1], labels[:, 1:])
            least = np.minimum(first, second)
            first[same] = least[same]
            second[same] = np.minimum(first, second)[same]
        if np.array_equal(before, labels):
            return labels
