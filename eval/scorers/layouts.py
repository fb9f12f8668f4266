"""Folders of pictures: GenEval's, and a plain one with captions. Written and read.

The official GenEval evaluator skips what it does not recognise and averages what is left; this reader
refuses a folder in which something is missing.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from backbones.durable import write_durably
from backbones.errors import RowcastError
from eval.scorers.pictures import Picture

METADATA = "metadata.jsonl"
SAMPLES = "samples"
CAPTIONS = "captions.jsonl"
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")


def write_geneval(
    folder: Path, index: int, metadata: Mapping[str, Any], images: Sequence[Image.Image]
) -> None:
    """Writes the images of one prompt as the official evaluator reads them: PNG, numbered.

    Args:
        folder: of the whole set.
        index: line of the prompt in its file, from 0.
        metadata: that line.
        images: the prompt's images, four by convention.
    """
    place = folder / f"{index:05d}"
    (place / SAMPLES).mkdir(parents=True, exist_ok=True)
    write_durably(place / METADATA, json.dumps(metadata) + "\n")
    for number, image in enumerate(images):
        save_png(image, place / SAMPLES / f"{number:04d}.png")


def read_geneval(folder: Path, samples: int | None) -> list[Picture]:
    """The pictures of a GenEval folder, in the order of its prompts.

    Args:
        folder: of the whole set.
        samples: images that each prompt has to have; none takes what is there.

    Raises:
        RowcastError: if there is no prompt, metadata is missing or wrong, or a prompt has another number
            of images.
    """
    places = sorted(place for place in entries(folder) if place.name.isdigit() and place.is_dir())
    if not places:
        raise RowcastError(
            f"expected folders 00000, 00001, ... with {METADATA} and {SAMPLES}/ in {folder}, found none: "
            "point images at the folder that the images were painted into"
        )
    pictures = []
    for place in places:
        metadata = _metadata(place / METADATA)
        found = sorted(path for path in entries(place / SAMPLES) if re.fullmatch(r"\d+\.png", path.name))
        if not found or (samples is not None and len(found) != samples):
            raise RowcastError(
                f"expected {samples or 'some'} images 0000.png ... in {place / SAMPLES}, found {len(found)}: "
                "paint what is missing, or set samples=null to score what is there"
            )
        pictures += [
            Picture(
                key=f"{place.name}/{path.stem}",
                path=path,
                prompt=metadata["prompt"],
                group=place.name,
                metadata=metadata,
            )
            for path in found
        ]
    return pictures


def write_captioned(folder: Path, name: str, prompt: str, image: Image.Image) -> None:
    """Adds an image to a plain folder and its caption to `captions.jsonl`; the later of two lines counts."""
    folder.mkdir(parents=True, exist_ok=True)
    save_png(image, folder / name)
    with (folder / CAPTIONS).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"file": name, "prompt": prompt}) + "\n")


def read_captioned(folder: Path) -> list[Picture]:
    """The pictures of a folder with their captions: a plain one with `captions.jsonl`, or GenEval's.

    Raises:
        RowcastError: if it is neither, or a line or a picture is missing.
    """
    path = folder / CAPTIONS
    if not path.is_file():
        if any(place.name.isdigit() for place in entries(folder)):
            return read_geneval(folder, samples=None)
        raise RowcastError(
            f'expected {path} with lines {{"file": "a.png", "prompt": "a red fox"}}, found none: write it, '
            "or point images at a GenEval folder"
        )
    captions: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        record = _json(line, path, number)
        if not isinstance(record.get("file"), str) or not isinstance(record.get("prompt"), str):
            raise RowcastError(f"expected texts `file` and `prompt` in line {number} of {path}: correct it")
        captions[record["file"]] = record["prompt"]
    inside = folder.resolve()
    for name in captions:
        if not (folder / name).resolve().is_relative_to(inside) or not (folder / name).is_file():
            raise RowcastError(
                f"expected the picture {name} of {path} in {folder}, found none: paint it, or drop its line"
            )
    if not captions:
        raise RowcastError(f"expected at least one caption in {path}, found none: add lines")
    return [
        Picture(key=name, path=folder / name, prompt=prompt, group=prompt)
        for name, prompt in captions.items()
    ]


def read_plain(folder: Path) -> list[Picture]:
    """Every picture in a folder and below it, sorted by name.

    Raises:
        RowcastError: if there is none.
    """
    entries(folder)  # refuses what is no folder
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not found:
        raise RowcastError(
            f"expected pictures ({' '.join(SUFFIXES)}) in {folder}, found none: check the path"
        )
    return [Picture(key=path.relative_to(folder).as_posix(), path=path) for path in found]


def entries(folder: Path) -> Iterator[Path]:
    """What lies in a folder.

    Raises:
        RowcastError: if it can't be listed.
    """
    try:
        return iter(list(folder.iterdir()))
    except OSError as error:
        raise RowcastError(
            f"expected a folder of images at {folder}, found: {error.strerror}: check the path"
        ) from None


def save_png(image: Image.Image, path: Path) -> None:
    """Writes a PNG, all or nothing."""
    temporary = path.with_name(path.name + ".tmp")
    image.save(temporary, format="PNG")
    temporary.replace(path)


def _metadata(path: Path) -> dict[str, Any]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise RowcastError(
            f"expected the prompt's line of the GenEval set in {path}, found: {error.strerror}: copy it there"
        ) from None
    record = _json(lines[0] if lines else "", path, 1)
    missing = [name for name in ("tag", "prompt", "include") if name not in record]
    if missing:
        raise RowcastError(
            f"expected tag, prompt and include in {path}, found no {', '.join(missing)}: "
            "copy the prompt's line of the GenEval set there"
        )
    return record


def _json(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise RowcastError(
            f"expected a JSON object in line {number} of {path}, found {line[:40]!r}: correct it"
        )
    return record
