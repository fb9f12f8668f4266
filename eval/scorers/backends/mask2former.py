"""Objects by transformers' Mask2Former, prepared and read out as mmdet does for the official evaluator.

transformers' own read-out is left aside: it resizes mask logits to 384x384 and cuts there. The published
checkpoint is another training run than mmdet's, hence the protocol's other name.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor
from torch.nn import functional
from transformers import Mask2FormerForUniversalSegmentation

from backbones.errors import RowcastError
from eval.scorers.backends.load import Place, load_model
from eval.scorers.geneval import CLASS_NAMES, THRESHOLD, Detection

SHORTER, LONGER = 800, 1333
"""Pixels of the detector's input: shorter side, and the longer one at most."""
MEAN, SPREAD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
MULTIPLE = 32
PER_IMAGE = 100
"""Pairs of query and class that are looked at, most probable first."""


class Mask2Former:
    """The detector of GenEval."""

    def __init__(self, place: Place) -> None:
        """Loads it.

        Raises:
            RowcastError: if the model can't be loaded or knows other classes than COCO's 80.
        """
        folder = place.folder()
        self.model = load_model(Mask2FormerForUniversalSegmentation, place, folder)
        found = self.model.config.num_labels
        if found != len(CLASS_NAMES):
            raise RowcastError(
                f"expected COCO's {len(CLASS_NAMES)} classes (instance segmentation), found {found} in "
                f"{place.path}: pass {place.option}=facebook/mask2former-swin-small-coco-instance"
            )
        self.record = place.record(folder)
        published = "mask2former-swin-small-coco-instance"
        self.name = "hf-mask2former" if place.name == published else f"hf-{place.name}"

    @torch.inference_mode()
    def detect(self, images: Sequence[Image.Image]) -> list[list[Detection]]:
        """The objects of every image that have a chance to count, in no order.

        Args:
            images: in RGB; those of one size are looked at together.
        """
        found: list[list[Detection]] = [[] for _ in images]
        for size in sorted({image.size for image in images}):
            places = [place for place, image in enumerate(images) if image.size == size]
            pixels = torch.stack([_pixels(images[place]) for place in places])
            prepared, inner = prepare(pixels.to(self.model.device))
            output = self.model(prepared.to(self.model.dtype))
            frame = (prepared.shape[-2], prepared.shape[-1])
            for row, place in enumerate(places):
                classes = output.class_queries_logits[row].float()
                masks = output.masks_queries_logits[row].float()
                found[place] = instances(classes, masks, frame, inner, (size[1], size[0]))
        return found


def prepare(images: Float[Tensor, "N 3 H W"]) -> tuple[Float[Tensor, "N 3 A B"], tuple[int, int]]:
    """The detector's input as mmdet's test pipeline makes it, and the part of it that is no padding.

    Args:
        images: values 0 to 255.
    """
    height, width = images.shape[-2:]
    scale = min(SHORTER / min(height, width), LONGER / max(height, width))
    inner = (int(height * scale + 0.5), int(width * scale + 0.5))
    resized = functional.interpolate(images, inner, mode="bilinear", align_corners=False)
    mean, spread = (images.new_tensor(values).view(3, 1, 1) for values in (MEAN, SPREAD))
    down, right = (-length % MULTIPLE for length in inner)
    return functional.pad((resized - mean) / spread, (0, right, 0, down)), inner


def instances(
    classes: Float[Tensor, "Q C"],
    masks: Float[Tensor, "Q A B"],
    frame: tuple[int, int],
    inner: tuple[int, int],
    size: tuple[int, int],
) -> list[Detection]:
    """Objects from logits: score = probability of the class x mean probability inside the mask.

    Args:
        classes: logits of each query over the classes and, last, no object.
        masks: logits of each query's mask.
        frame: height and width of the detector's input.
        inner: the part of it that is no padding.
        size: height and width of the image, at which masks are cut.
    """
    probabilities = classes.softmax(-1)[:, :-1]
    scores, order = probabilities.flatten().topk(min(PER_IMAGE, probabilities.numel()))
    hopeful = scores > THRESHOLD  # the quality of a mask is at most 1
    found = []
    for score, place in zip(scores[hopeful].tolist(), order[hopeful].tolist(), strict=True):
        query, label = divmod(place, probabilities.shape[1])
        seen = _resized(masks[query], frame)[: inner[0], : inner[1]]
        logits = _resized(seen, size)
        mask = logits > 0
        quality = float((logits.sigmoid() * mask).sum() / (mask.sum() + 1e-6))
        found.append(
            Detection(
                name=CLASS_NAMES[label],
                score=score * quality,
                box=extent(mask.cpu().numpy()),
                mask=mask.cpu().numpy(),
            )
        )
    return found


def extent(mask: np.ndarray) -> tuple[float, float, float, float]:
    """The box around a mask, right and bottom outside; zeros for an empty one."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if not len(rows):
        return (0.0, 0.0, 0.0, 0.0)
    return (float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))


def _resized(logits: Float[Tensor, "A B"], size: tuple[int, int]) -> Float[Tensor, "H W"]:
    return functional.interpolate(logits[None, None], size, mode="bilinear", align_corners=False)[0, 0]


def _pixels(image: Image.Image) -> Float[Tensor, "3 H W"]:
    return torch.from_numpy(np.asarray(image, np.float32).copy()).permute(2, 0, 1)
