"""Pictures on a disk with the prompts they were painted for: what every scorer judges."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps, UnidentifiedImageError

from backbones.errors import RowcastError

Box = tuple[int, int, int, int]
"""Left, top, right, bottom; right and bottom are outside."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One image, or one tile of a grid of images."""

    key: str
    """Names the image within its folder: `00003/0001`."""
    path: Path
    prompt: str = ""
    group: str = ""
    """Names the prompt: images of one group are averaged before prompts are."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What the prompt set says of the prompt."""
    tile: Box | None = None
    """The part of the file that is the image; none for all of it."""

    def load(self) -> Image.Image:
        """The image in RGB, upright, its tile cut out.

        Raises:
            RowcastError: if the file is no readable image, or the tile is not inside.
        """
        image = open_image(self.path)
        if self.tile is None:
            return image
        if self.tile[2] > image.width or self.tile[3] > image.height:
            raise RowcastError(
                f"expected a grid of at least {self.tile[2]}x{self.tile[3]} pixels, found {image.width}x"
                f"{image.height} in {self.path}: paint it again"
            )
        return image.crop(self.tile)

    def fingerprint(self) -> str:
        """Hash of the file's bytes, the tile and the prompt: what a score stays true for.

        Raises:
            RowcastError: if the file can't be read.
        """
        try:
            content = hashlib.sha256(self.path.read_bytes())
        except OSError as error:
            raise unreadable(self.path, error.strerror or "an error") from None
        asked = [self.tile, self.prompt, self.metadata]
        content.update(json.dumps(asked, sort_keys=True, default=str).encode())
        return content.hexdigest()[:24]


def open_image(path: Path) -> Image.Image:
    """A file's image in RGB, turned as its camera says.

    Raises:
        RowcastError: if it is no readable image.
    """
    with _readable(path), Image.open(path) as image:
        return ImageOps.exif_transpose(image).convert("RGB")


def image_size(path: Path) -> tuple[int, int]:
    """Width and height of a file's image, which is not decoded for that.

    Raises:
        RowcastError: if it is no readable image.
    """
    with _readable(path), Image.open(path) as image:
        return image.size


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except UnidentifiedImageError:
        raise unreadable(path, "another kind of file") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise unreadable(path, getattr(error, "strerror", None) or str(error)) from None


def unreadable(path: Path, found: str) -> RowcastError:
    """The error of a picture that can't be scored."""
    return RowcastError(
        f"expected a readable image at {path}, found {found}: paint it again, or take it out of the folder"
    )
