"""Paints prompts into one PNG: a single image, or a sheet of them."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isqrt
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor
from tqdm import tqdm

from backbones.contract import Backbone, Sampling
from backbones.errors import RowcastError
from decoding.engine import generate
from decoding.methods.method import Method
from decoding.noise import Noise

MOST_PIXELS = 2**30
"""Of a sheet: three gigabytes of memory while it is written."""
GAP = 8
"""Pixels between the images of a sheet."""


@dataclass(frozen=True, kw_only=True)
class Painting:
    """What was painted, and what it took."""

    path: Path
    images: int
    forwards: float
    """Trunk calls an image, mean."""
    seconds: float
    """Decoding time in all, pixels left out."""


def paint(
    backbone: Backbone,
    method: Method,
    prompts: Sequence[str],
    *,
    images: int,
    seed: int,
    batch: int,
    sampling: Sampling,
    size: int = 256,
    out: Path,
) -> Painting:
    """Paints `images` of every prompt and writes them to `out`.

    The file is written anew after every batch, so that an interrupted run leaves what it has painted.

    Args:
        backbone: the frozen generator.
        method: the decoder.
        prompts: texts; one that comes again gets further samples.
        images: images a prompt; several prompts make one row of the sheet each.
        seed: with the prompt and the sample's number, it alone decides an image.
        batch: images painted at a time, where the decoder takes more than one.
        sampling: how tokens are drawn.
        size: pixels, about, that the longest side of a smaller image is enlarged to, to be seen at all.
        out: a `.png` path; its folder is made.

    Raises:
        RowcastError: if `out` cannot be written or would be too large, or the backbone has no pixels; all
            found out before painting.
    """
    require_writable(out)
    if not backbone.paints:
        raise RowcastError(
            f"expected weights that turn tokens into pixels, found none for {backbone.name}: "
            "pass model.pixels"
        )
    total, most = len(prompts) * images, MOST_PIXELS // size**2
    if total > most:
        raise RowcastError(
            f"expected at most {most} images with size={size}, found {total}: lower num_images or size"
        )
    batch = batch if method.lockstep else 1
    seen: Counter[str] = Counter()
    requests = []
    for prompt in prompts:
        requests += [(prompt, seen[prompt] + sample) for sample in range(images)]
        seen[prompt] += images
    columns = images if len(prompts) > 1 and images > 1 else isqrt(len(requests) - 1) + 1
    pixels: list[UInt8[Tensor, "3 H W"]] = []
    forwards, seconds = 0, 0.0
    alone = len(requests) <= batch
    for start in tqdm(range(0, len(requests), batch), "painting", unit="batch", disable=alone, leave=False):
        texts, samples = zip(*requests[start : start + batch], strict=True)
        generation = generate(backbone, texts, method, Noise(seed, texts, samples), sampling)
        forwards += generation.trace.forwards * len(texts)
        seconds += generation.trace.seconds["total"]
        pixels += backbone.decode(generation.tokens).cpu()
        _write(sheet(pixels, columns, ceil(len(requests) / columns), size), out)
    return Painting(path=out, images=len(requests), forwards=forwards / len(requests), seconds=seconds)


def sheet(
    images: Sequence[UInt8[Tensor, "3 H W"]], columns: int, rows: int, size: int
) -> UInt8[Tensor, "3 Y X"]:
    """Lays images out on white, row by row; places without an image stay white.

    An image is enlarged by the whole factor that brings its longest side nearest to `size` pixels.
    """
    factor = max(1, round(size / max(images[0].shape)))
    tiles = [image.repeat_interleave(factor, 1).repeat_interleave(factor, 2) for image in images]
    height, width = tiles[0].shape[1:]
    canvas = torch.full(
        (3, rows * (height + GAP) - GAP, columns * (width + GAP) - GAP), 255, dtype=torch.uint8
    )
    for index, tile in enumerate(tiles):
        y, x = index // columns * (height + GAP), index % columns * (width + GAP)
        canvas[:, y : y + height, x : x + width] = tile
    return canvas


def _partial(out: Path) -> Path:
    return out.with_name(out.name + ".partial")


def require_writable(out: Path) -> None:
    """Makes the folder of `out` and tries it.

    Raises:
        RowcastError: if `out` is no `.png` path, or cannot be written.
    """
    if out.suffix != ".png":
        raise RowcastError(f"expected a .png path, found {out}: set out={out.stem or 'painting'}.png")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _partial(out).touch()
        _partial(out).unlink()
    except OSError as error:
        raise _unwritable(out, error) from error
    if out.is_dir():
        raise RowcastError(f"expected a file at {out}, found a folder: set another out=")


def _write(canvas: UInt8[Tensor, "3 Y X"], out: Path) -> None:
    """Puts the finished file in place of an older one in one step."""
    from PIL import Image

    try:
        with _partial(out).open("wb") as file:
            Image.fromarray(canvas.permute(1, 2, 0).numpy()).save(file, format="png")
            file.flush()
            os.fsync(file.fileno())
        _partial(out).replace(out)
    except OSError as error:
        _partial(out).unlink(missing_ok=True)
        raise _unwritable(out, error) from error


def _unwritable(out: Path, error: OSError) -> RowcastError:
    if isinstance(error, FileExistsError | NotADirectoryError):
        return RowcastError(f"expected a folder {out.parent} for {out.name}, found a file: set another out=")
    return RowcastError(
        f"expected to write {out}, found: {error.strerror}; permit or free the space, or set another out="
    )
