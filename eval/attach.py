"""Puts a benchmark beside the heads that it ran with: results and a sheet of images, for their card."""

import io
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from backbones.durable import write_durably
from backbones.errors import RowcastError
from checkpoints.bundle import attach_results
from checkpoints.card import SAMPLES_FILE
from decoding.options import HEADS
from decoding.paint import sheet
from eval.results import RESULTS_FILE, Results
from eval.samples import unwritable

COLUMNS, ROWS = 4, 2
SIDE = 192
"""Pixels of an image on the sheet, at most: some 500 KB in all."""
ENLARGED = 128
"""What smaller images are enlarged to, by a whole factor."""


def require_folders(bundles: Mapping[str, Path]) -> None:
    """Refuses bundles in the cache of the hub's library, which is not ours to write to.

    Raises:
        RowcastError: naming the first one.
    """
    from huggingface_hub.constants import HF_HUB_CACHE

    for folder in bundles.values():
        if folder.resolve().is_relative_to(Path(HF_HUB_CACHE).resolve()):
            raise RowcastError(
                f"expected a bundle's own folder for attach=true, found {folder} in the hub's cache: copy "
                "that folder and give its path as heads=, or leave attach out"
            )


def attach(bundles: Mapping[str, Path], results: Results, folder: Path) -> None:
    """Writes `results.json` into every bundle, and `samples.png` where there is none.

    Args:
        bundles: those that were measured, by kind of heads.
        results: the figures.
        folder: of the benchmark, with `results.json` and the gallery.

    Raises:
        RowcastError: if a bundle can't be written.
    """
    figures = json.loads((folder / RESULTS_FILE).read_text())
    for kind, bundle in bundles.items():
        attach_results(bundle, figures)
        path, images = bundle / SAMPLES_FILE, samples(results, folder, kind)
        if images and not path.exists():
            try:
                write_durably(path, _png(images))
            except OSError as error:
                raise unwritable(path, error) from error


def samples(results: Results, folder: Path, kind: str) -> list[UInt8[Tensor, "3 H W"]]:
    """What a decoder painted with heads of a kind, a lossless one if there is any; none without a gallery."""
    methods = {decoder.name: str(decoder.options["name"]) for decoder in results.decoders}
    own = [decoder for decoder in results.decoders if HEADS.get(methods[decoder.name]) == kind]
    chosen = next((decoder for decoder in own if decoder.lossless), own[0])
    shown = results.gallery[: COLUMNS * ROWS]
    return [_pixels(folder / exhibit.pictures[chosen.name]) for exhibit in shown]


def _pixels(path: Path) -> UInt8[Tensor, "3 H W"]:
    with Image.open(path) as image:
        small = image.convert("RGB")
    small.thumbnail((SIDE, SIDE))
    return torch.from_numpy(np.asarray(small).copy()).permute(2, 0, 1)


def _png(images: list[UInt8[Tensor, "3 H W"]]) -> bytes:
    columns = min(COLUMNS, len(images))
    whole = sheet(images, columns, -(-len(images) // columns), ENLARGED)
    file = io.BytesIO()
    Image.fromarray(whole.permute(1, 2, 0).contiguous().numpy()).save(file, "PNG", optimize=True)
    return file.getvalue()
