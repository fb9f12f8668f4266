"""Tinted Fashion-MNIST photographs with captions: what the pocket model learns to paint.

A 28x28 grey photograph is padded to 32x32, tinted with a named colour and laid over a named
background: "a red sneaker on blue". Reads the IDX files of Debian's `dataset-fashion-mnist`.
"""

import gzip
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from backbones.errors import RowcastError

DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
SIDE = 32

GARMENTS = (
    "t-shirt",
    "trousers",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "boot",
)
# Every colour keeps its hue under the tint's shading (so no brown, which is dark orange, and no grey).
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (220, 30, 30),
    "orange": (240, 130, 20),
    "yellow": (245, 220, 40),
    "green": (40, 160, 60),
    "cyan": (40, 190, 200),
    "blue": (30, 70, 210),
    "purple": (130, 50, 180),
    "pink": (250, 130, 190),
    "white": (245, 245, 245),
    "black": (25, 25, 25),
}
COLOUR_NAMES = tuple(COLOURS)


@dataclass(frozen=True, kw_only=True)
class Photographs:
    """One split: grey images and their garment labels (index into `GARMENTS`)."""

    grey: UInt8[Tensor, "M 28 28"]
    garment: Int[Tensor, " M"]


def caption(garment: int, colour: int, background: int) -> str:
    """The prompt of a garment in one colour on another, in plain English."""
    noun, tint = GARMENTS[garment], COLOUR_NAMES[colour]
    article = "" if noun == "trousers" else "an " if tint[0] in "aeiou" else "a "
    return f"{article}{tint} {noun} on {COLOUR_NAMES[background]}"


def all_captions() -> list[str]:
    """Every prompt the model knows: 10 garments x 10 colours x 9 other backgrounds."""
    ten = range(len(COLOURS))
    return [caption(g, c, b) for g in range(len(GARMENTS)) for c in ten for b in ten if c != b]


def parse_caption(prompt: str) -> tuple[int, int, int]:
    """The (garment, colour, background) indices that `prompt` names.

    Raises:
        RowcastError: if the prompt is not one of `all_captions()`.
    """
    words = prompt.split()
    try:
        tint, noun, _, background = words[-4:]
        found = GARMENTS.index(noun), COLOUR_NAMES.index(tint), COLOUR_NAMES.index(background)
    except ValueError:
        raise RowcastError(
            f"expected a prompt such as {caption(7, 0, 5)!r}, found {prompt!r}: only these can be scored"
        ) from None
    return found


def read_split(folder: Path, train: bool) -> Photographs:
    """Reads one split from IDX files, compressed or not.

    Raises:
        RowcastError: if a file is missing or is not an IDX file of the expected size.
    """
    stem, count = ("train", 60_000) if train else ("t10k", 10_000)
    grey = _read_idx(folder, f"{stem}-images-idx3-ubyte", (count, 28, 28))
    label = _read_idx(folder, f"{stem}-labels-idx1-ubyte", (count,))
    return Photographs(grey=torch.from_numpy(grey), garment=torch.from_numpy(label).long())


def _read_idx(folder: Path, name: str, shape: tuple[int, ...]) -> np.ndarray:
    for path, opener in ((folder / f"{name}.gz", gzip.open), (folder / name, open)):
        if path.is_file():
            with opener(path, "rb") as file:
                raw = file.read()
            break
    else:
        raise RowcastError(
            f"expected {name}.gz in {folder}, found no such file: "
            "install Debian's dataset-fashion-mnist or pass --data with a folder of the four IDX files"
        )
    header = 4 + 4 * len(shape)
    found = struct.unpack(f">{len(shape)}i", raw[4:header]) if len(raw) >= header else ()
    if found != shape or len(raw) != header + int(np.prod(shape)):
        raise RowcastError(f"expected {path} to hold {shape} bytes, found {found}: fetch the file again")
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape).copy()


def tint(
    grey: UInt8[Tensor, "B 28 28"], colour: Int[Tensor, " B"], background: Int[Tensor, " B"]
) -> Float[Tensor, "B 3 32 32"]:
    """Colours each photograph and lays it over its background; pixels in [0, 1]."""
    shade = torch.nn.functional.pad(grey.float() / 255, (2, 2, 2, 2))[:, None]
    palette = torch.tensor(list(COLOURS.values())).float()[..., None, None] / 255
    alpha = (6 * shade).clamp(max=1)
    return alpha * palette[colour] * (0.25 + 0.75 * shade) + (1 - alpha) * palette[background]


def draw_colours(count: int, generator: torch.Generator) -> tuple[Int[Tensor, " B"], Int[Tensor, " B"]]:
    """Random (garment colour, background colour) pairs, always two different ones."""
    ten = len(COLOURS)
    colour = torch.randint(ten, (count,), generator=generator)
    return colour, (colour + torch.randint(1, ten, (count,), generator=generator)) % ten
