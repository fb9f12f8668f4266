"""transformers models for scoring: from a folder or the hub, every weight there, on their device."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers import PreTrainedModel

from backbones.errors import RowcastError
from backbones.pretrained import read_config, read_model
from backbones.registry import device_of
from backbones.source import DTYPES, fetch, first_line

FILES = ("*.json", "*.safetensors", "*.txt")
"""What is fetched of a repository: no program and nothing pickled."""

ModelT = TypeVar("ModelT", bound=PreTrainedModel)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a scoring model comes from and how it is held."""

    path: str
    """Folder or hub id."""
    option: str
    """The option that the user wrote it in, for messages."""
    revision: str | None = None
    device: str = "auto"
    dtype: str = "float32"

    def folder(self) -> Path:
        """The local folder, downloaded where it has to be.

        Raises:
            RowcastError: if there is no such thing, saying what to fetch.
        """
        return fetch(self.path, self.revision, FILES, self.option)

    @property
    def name(self) -> str:
        """The last part of the place, in small letters: what a protocol is called after."""
        return self.path.rstrip("/").rpartition("/")[2].lower()

    @property
    def torch_device(self) -> torch.device:
        return device_of(self.device)

    @property
    def torch_dtype(self) -> torch.dtype:
        return DTYPES[self.dtype]

    def record(self, folder: Path) -> dict[str, str | None]:
        """What results say of the model: place, type of numbers, and the hub's commit where it is known."""
        commit = folder.name if folder.parent.name == "snapshots" else None
        return {"path": self.path, "commit": commit, "dtype": self.dtype}


def load_model(kind: type[ModelT], place: Place, folder: Path, **changes: Any) -> ModelT:
    """The model, frozen, for inference.

    Args:
        kind: its class.
        place: where it comes from.
        folder: the same, on this machine.
        changes: of its configuration.

    Raises:
        RowcastError: if a file is missing or broken, is of another kind, or lacks a weight.
    """
    config = read_config(folder, kind.config_class, place.path)  # pyright: ignore[reportArgumentType]
    for name, value in changes.items():
        setattr(config, name, value)
    model = read_model(kind, folder, config, place.torch_dtype, needed=("",), option=place.option)
    return model.to(place.torch_device).eval().requires_grad_(False)  # pyright: ignore[reportArgumentType]


def load_part(kind: Any, folder: Path, what: str) -> Any:
    """A tokenizer or an image processor.

    Raises:
        RowcastError: if its files are missing or broken.
    """
    try:
        return kind.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # a hand-edited file surfaces as one of a dozen types
        raise RowcastError(
            f"expected the {what} of the model in {folder}, found {first_line(error)}: "
            "fetch the files that were published together"
        ) from error


def require_kind(found: str | None, known: Sequence[str], place: Place) -> str:
    """The model's type, if this scorer has a back end for it.

    Raises:
        RowcastError: naming the types that it has.
    """
    if found not in known:
        raise RowcastError(
            f"expected a model of type {' or '.join(known)}, found {found!r} in {place.path}: "
            f"pass another {place.option}"
        )
    return found
