"""What publishing uploads: the files of a bundle, checked, with the card of its name on the hub."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from backbones.errors import RowcastError
from checkpoints.bundle import weights_path
from checkpoints.card import CARD_FILE, SAMPLES_FILE, Publication, render_card
from checkpoints.config import CONFIG_FILE, BundleConfig, read_config
from checkpoints.custom import CODE_FILE, names_in, shipped_code
from checkpoints.hub import FILES, LIMITS
from checkpoints.json_file import json_text
from checkpoints.measured import RESULTS_FILE, read_measured
from checkpoints.places import HubPlace, require_repository
from checkpoints.token import holds_token
from checkpoints.weights import WEIGHTS_FILE, read_weights, require_publishable


@dataclass(frozen=True, kw_only=True)
class Package:
    """What is uploaded, by its name in the repository."""

    config: BundleConfig
    weights: Path
    texts: dict[str, bytes]
    """All other files, whole."""
    left_out: list[str]
    """What else lies in the bundle's folder."""
    licence: str | None
    """Of the base model, as far as it is known."""

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of every file."""
        texts = {name: len(content) for name, content in self.texts.items()}
        return {**texts, WEIGHTS_FILE: self.weights.stat().st_size}


def pack(
    folder: Path,
    place: HubPlace,
    *,
    base_model: str | None,
    licence: Callable[[str], str | None],
    custom_generate: bool = False,
) -> Package:
    """Checks the bundle in `folder` and renders its card.

    Args:
        folder: of the bundle; nothing in it is changed.
        place: where it will be.
        base_model: hub id of the backbone's weights, for a bundle that does not know it.
        licence: of a repository on the hub.
        custom_generate: adds the code with which plain transformers paints.

    Raises:
        RowcastError: if anything is missing, damaged, not finite, of other heads, or looks like a token; or
            if there is no such code for these heads.
    """
    config = _with_base(read_config(folder), base_model)
    path = weights_path(folder, config)
    heads = read_weights(path, config.heads, config.weights_sha256)
    require_publishable(path, heads)
    measured = read_measured(folder, config)
    texts = {CONFIG_FILE: json_text(config.as_json()).encode()}
    if measured is not None:
        texts[RESULTS_FILE] = (folder / RESULTS_FILE).read_bytes()
    if (folder / SAMPLES_FILE).exists():
        texts[SAMPLES_FILE] = _picture(folder / SAMPLES_FILE)
    if custom_generate:
        texts[CODE_FILE] = shipped_code(config)
    origin = config.backbone.origin
    found = None if origin is None else licence(origin.repository)
    publication = Publication(
        place=str(place),
        licence=found,
        measured=measured,
        samples=SAMPLES_FILE in texts,
        custom_generate=custom_generate,
    )
    parameters = sum(weight.numel() for weight in heads.parameters())
    texts[CARD_FILE] = render_card(config, parameters, heads.labels, publication).encode()
    for name, content in texts.items():
        _refuse_token(folder / name, content)
    others = names_in(folder) - {*texts, WEIGHTS_FILE, path.name}
    return Package(config=config, weights=path, texts=texts, left_out=sorted(others), licence=found)


def write_package(package: Package, out: Path) -> None:
    """Writes what would be uploaded, and nothing else, into the folder `out`.

    Raises:
        RowcastError: if `out` is the bundle, holds anything else, or the disk refuses.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        if out.resolve() == package.weights.parent.resolve():
            raise RowcastError(f"expected out= apart from the bundle, found {out}: set another folder")
        others = sorted(names_in(out) - set(FILES))
        if others:
            raise RowcastError(
                f"expected an empty folder or an earlier dry run in {out}, found {others[0]}: "
                "set another out="
            )
        for name in FILES:
            (out / name).unlink(missing_ok=True)
        for name, content in package.texts.items():
            (out / name).parent.mkdir(exist_ok=True)
            (out / name).write_bytes(content)
        shutil.copyfile(package.weights, out / WEIGHTS_FILE)
    except OSError as error:
        raise RowcastError(
            f"expected to write into {out}, found {error.strerror or error}: free space or set another out="
        ) from error


def _with_base(config: BundleConfig, base_model: str | None) -> BundleConfig:
    """The config with the origin of the backbone that the user states."""
    if base_model is None:
        return config
    stated, origin = require_repository(base_model, "base_model"), config.backbone.origin
    if origin is not None and origin.repository != stated:
        raise RowcastError(
            f"expected base_model={origin.repository}, which the backbone was loaded from, "
            f"found {stated}: leave the option out"
        )
    return config if origin else replace(config, backbone=replace(config.backbone, source=stated))


def _picture(path: Path) -> bytes:
    """The bytes of a PNG of a size that a page can bear."""
    found = f"{path.stat().st_size:,} bytes"
    if path.stat().st_size <= LIMITS[SAMPLES_FILE]:
        try:
            with Image.open(path, formats=["PNG"]) as image:
                image.verify()
            return path.read_bytes()
        except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
            found = str(error)
    raise RowcastError(
        f"expected a PNG of at most {LIMITS[SAMPLES_FILE]:,} bytes in {path}, found {found}; "
        "paint it anew with `python -m decoding`, or remove it"
    )


def _refuse_token(path: Path, content: bytes) -> None:
    """Refuses a file with a token in it, which nobody wants to be read by all."""
    if holds_token(content.decode(errors="replace")):
        raise RowcastError(
            f"expected no token of the hub in {path}, found one; remove it there, and revoke it if others "
            "saw it"
        )
