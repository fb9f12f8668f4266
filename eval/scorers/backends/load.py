"""transformers models for scoring: from a folder or the hub, every weight there, on their device."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from backbones.errors import RowcastError
from backbones.pretrained import read_config, read_model
from backbones.registry import device_of
from backbones.source import DTYPES, fetch, first_line
from backbones.torch_file import read_tensors

FILES = ("*.json", "*.txt", "*.jinja", "*.safetensors")
"""What is fetched of a repository: no program."""
PICKLED = "pytorch_model.bin"
"""Older repositories have nothing else; read as plain tensors, nothing in it is executed."""

ModelT = TypeVar("ModelT", bound=PreTrainedModel)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a scoring model comes from and how it is held."""

    path: str
    """Folder or hub id."""
    option: str
    """The option that the user wrote it in, for messages."""
    device: str = "auto"
    dtype: str = "float32"

    def folder(self) -> Path:
        """The local folder, downloaded where it has to be.

        Raises:
            RowcastError: if there is no such thing, saying what to fetch.
        """
        place, _, revision = self.path.partition("@") if not Path(self.path).exists() else (self.path, "", "")
        folder = fetch(place, revision or None, FILES, self.option)
        if any(folder.glob("*.safetensors")):
            return folder
        return fetch(place, revision or None, [*FILES, PICKLED], self.option)

    @property
    def name(self) -> str:
        """The last part of the place, in small letters: what a protocol is called after."""
        return self.path.rstrip("/").rpartition("/")[2].partition("@")[0].lower()

    def record(self, folder: Path) -> dict[str, str | None]:
        """What results say of the model: place, type of numbers, and the hub's commit where it is known."""
        commit = folder.name if folder.parent.name == "snapshots" else None
        return {"path": self.path, "commit": commit, "dtype": self.dtype}


def load_model(kind: type[ModelT], place: Place, folder: Path) -> ModelT:
    """The model, frozen, for inference.

    Args:
        kind: its class.
        place: where it comes from.
        folder: the same, on this machine.

    Raises:
        RowcastError: if a file is missing or broken, is of another kind, or lacks a weight.
    """
    form: type[PreTrainedConfig] = kind.config_class  # pyright: ignore[reportAssignmentType]
    config = read_config(folder, form, place.path)
    dtype = DTYPES[place.dtype]
    if not any(folder.glob("*.safetensors")) and (folder / PICKLED).is_file():
        held: Any = _from_pickle(kind(config), folder / PICKLED, place.option)
        model: Any = held.to(dtype)
    else:
        with torch.device("meta"):
            names = [name for name, _ in kind(config).named_parameters()]
        # What older releases saved beside the parameters (tables of positions) is not asked for.
        model = read_model(kind, folder, config, dtype, needed=names, option=place.option)
    return model.to(device_of(place.device)).eval().requires_grad_(False)


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


def require_type(found: object, known: Sequence[str], place: Place) -> None:
    """Refuses a model of a type that this scorer has no back end for.

    Raises:
        RowcastError: naming the types that it has.
    """
    if found not in known:
        raise RowcastError(
            f"expected a model of type {' or '.join(known)}, found {found!r} in {place.path}: "
            f"pass another {place.option}"
        )


def _from_pickle(model: ModelT, path: Path, option: str) -> ModelT:
    tensors = read_tensors(path, option)
    try:
        missing = model.load_state_dict(tensors, strict=False).missing_keys
    except RuntimeError as error:  # shapes
        raise RowcastError(
            f"expected the weights that config.json describes, found {first_line(error)} in {path}: "
            "fetch the files that were published together"
        ) from error
    model.tie_weights()
    tied = set(model.all_tied_weights_keys)
    buffers = {name for name, _ in model.named_buffers()}
    for name in missing:
        if name not in tied | buffers:
            raise RowcastError(
                f"expected every weight of the model, found none for {name} in {path}: fetch it again"
            )
    return model
