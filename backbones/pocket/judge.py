"""Scores a pocket painting without a foundation model: which garment, which two colours, which features.

The garment by a small convolutional classifier trained on the real training split, the colours by
medians inside and outside the garment, and the VQ encoder's latents as features for Fréchet distances.
"""

import functools
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn

from backbones.contract import Backbone
from backbones.errors import RowcastError
from backbones.pocket.photographs import COLOURS, GARMENTS, SIDE

WEIGHTS = Path(__file__).parent / "weights"
CLASSIFIER_FILE = "classifier.safetensors"
SHEET_FILE = "real_test_images.png"
SHEET_COLUMNS = 32


class GarmentClassifier(nn.Sequential):
    """A small convolutional network: 32x32 pixels to ten garments."""

    def __init__(self) -> None:
        def block(inner: int, outer: int, side: int = 3, stride: int = 1) -> list[nn.Module]:
            convolution = nn.Conv2d(inner, outer, side, stride=stride, padding=1, bias=False)
            return [convolution, nn.BatchNorm2d(outer), nn.ReLU()]

        super().__init__(
            *block(3, 48, side=4, stride=2),
            *block(48, 64),
            *block(64, 64),
            nn.MaxPool2d(2),
            *block(64, 128),
            *block(128, 128),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(512, len(GARMENTS)),
        )


@functools.cache
def classifier(folder: Path = WEIGHTS) -> GarmentClassifier:
    """The shipped classifier.

    Raises:
        RowcastError: if its weights are missing.
    """
    path = _require(folder / CLASSIFIER_FILE)
    network = GarmentClassifier()
    counters = {k: v for k, v in network.state_dict().items() if not v.is_floating_point()}
    network.load_state_dict({k: v.float() for k, v in load_file(path).items()} | counters)
    return network.eval()


@torch.no_grad()
def garments(images: UInt8[Tensor, "N 3 32 32"]) -> Int[Tensor, " N"]:
    """The most likely garment of each image, as an index into `GARMENTS`."""
    return classifier()(2 * images.float() / 255 - 1).argmax(-1)


def colours(images: UInt8[Tensor, "N 3 32 32"]) -> tuple[Int[Tensor, " N"], Int[Tensor, " N"]]:
    """(garment colour, background colour) of each image, as indices into `COLOURS`."""
    pairs = [_colours_of(image.float().permute(1, 2, 0).reshape(-1, 3) / 255) for image in images]
    found = torch.tensor(pairs)
    return found[:, 0], found[:, 1]


def _colours_of(pixels: Float[Tensor, "Q 3"]) -> tuple[int, int]:
    palette = torch.tensor(list(COLOURS.values())).float() / 255
    square = pixels.view(SIDE, SIDE, 3)
    border = torch.cat([square[:2].flatten(0, 1), square[-2:].flatten(0, 1), square[:, 0], square[:, -1]])
    ground = border.median(0).values
    background = int((palette - ground).norm(dim=-1).argmin())
    inside = pixels[(pixels - ground).norm(dim=-1) > 0.25]
    if len(inside) < 10:
        return background, background
    middle = inside.median(0).values
    # The tint shades a colour by 0.25 to 1 and keeps its hue: compare with every shade of each name.
    shades = torch.linspace(0.35, 1, 14)[:, None, None] * palette
    return int((shades - middle).norm(dim=-1).min(0).values.argmin()), background


def garment_and_colours(
    images: UInt8[Tensor, "N 3 32 32"],
) -> tuple[Int[Tensor, " N"], Int[Tensor, " N"], Int[Tensor, " N"]]:
    """(garment, garment colour, background colour) of each image."""
    return garments(images), *colours(images)


@torch.no_grad()
def features(backbone: Backbone, images: UInt8[Tensor, "N 3 32 32"]) -> Float[Tensor, "N F"]:
    """VQ-encoder latents, averaged over 2x2 tokens: 8 channels of 8x8 (F = 512)."""
    from backbones.janus import Janus
    from backbones.pocket.train_tokenizer import encode

    assert isinstance(backbone, Janus)
    latents = [encode(backbone.vq, 2 * part.float() / 255 - 1) for part in images.split(64)]
    return nn.functional.avg_pool2d(torch.cat(latents), 2).flatten(1)


def real_test_images(folder: Path = WEIGHTS) -> UInt8[Tensor, "M 3 32 32"]:
    """The shipped sheet of tinted photographs from the test split.

    Raises:
        RowcastError: if the sheet is missing.
    """
    sheet = torch.from_numpy(np.array(Image.open(_require(folder / SHEET_FILE)).convert("RGB")))
    rows = sheet.shape[0] // SIDE
    tiles = sheet.view(rows, SIDE, SHEET_COLUMNS, SIDE, 3).permute(0, 2, 4, 1, 3)
    return tiles.reshape(-1, 3, SIDE, SIDE)


def _require(path: Path) -> Path:
    if not path.is_file():
        raise RowcastError(
            f"expected {path}, found no such file: run python -m backbones.pocket.pretrain to make it"
        )
    return path


def write_sheet(images: UInt8[Tensor, "M 3 32 32"], path: Path) -> None:
    """Packs images into one PNG, `SHEET_COLUMNS` to a row; their number must fill the rows."""
    rows = len(images) // SHEET_COLUMNS
    tiles = images.view(rows, SHEET_COLUMNS, 3, SIDE, SIDE).permute(0, 3, 1, 4, 2)
    Image.fromarray(tiles.reshape(rows * SIDE, SHEET_COLUMNS * SIDE, 3).numpy()).save(path, optimize=True)
