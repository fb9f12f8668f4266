"""Named tensors of a safetensors checkpoint, read one at a time.

A 14 GB checkpoint is never held twice: a tensor is mapped from its file when it is asked for, and a slice of
one is all that is read where a slice is all that is kept.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jaxtyping import Shaped
from safetensors import SafetensorError, safe_open
from torch import Tensor

from backbones.errors import RowcastError
from backbones.source import first_line

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
FLOATING = ("F", "BF")
"""How the format's names of floating-point types begin."""


class Shards:
    """The tensors of one or more safetensors files."""

    def __init__(self, files: Mapping[str, Path], option: str) -> None:
        """Takes the file of each tensor, and the option that the user would change."""
        self._files, self._option = files, option
        self._open: dict[Path, Any] = {}

    @property
    def names(self) -> list[str]:
        """Of all tensors; no file is read for them."""
        return list(self._files)

    def read(self, name: str) -> Shaped[Tensor, "..."]:
        """The tensor, mapped from its file.

        Raises:
            RowcastError: if there is none of that name, or its file is broken.
        """
        self.require_floating([name])
        path = self._file_of(name)
        try:
            return self._handle(path).get_tensor(name)
        except SafetensorError as error:
            raise _broken(path, error, self._option) from error

    def rows(self, name: str, first: int, end: int) -> Shaped[Tensor, "R ..."]:
        """Rows `first..end-1` of a tensor; the others are not read.

        Raises:
            RowcastError: if there is none of that name, it has fewer rows, or its file is broken.
        """
        self.require_floating([name])
        path = self._file_of(name)
        try:
            part = self._handle(path).get_slice(name)
            held = part.get_shape()[0]
            if end > held:
                raise RowcastError(
                    f"expected at least {end} rows of {name}, found {held} in {path}: "
                    f"pass weights that belong to the config.json beside them as {self._option}"
                )
            return part[first:end]
        except SafetensorError as error:
            raise _broken(path, error, self._option) from error

    def require_floating(self, names: Iterable[str]) -> None:
        """Refuses the whole numbers of a quantised copy, which mean nothing alone; reads headers only.

        Raises:
            RowcastError: if one of the tensors is of them, there is none of that name, or its file is broken.
        """
        for name in names:
            path = self._file_of(name)
            try:
                kind = self._handle(path).get_slice(name).get_dtype()
            except SafetensorError as error:
                raise _broken(path, error, self._option) from error
            if not kind.startswith(FLOATING):
                raise RowcastError(
                    f"expected floating-point weights, found {kind} for {name} in {path}: "
                    f"pass weights that are not quantised as {self._option}"
                )

    def _file_of(self, name: str) -> Path:
        if name not in self._files:
            place = sorted({str(path.parent) for path in self._files.values()})
            raise RowcastError(
                f"expected a tensor {name}, found none in {', '.join(place) or 'an empty checkpoint'}: "
                f"fetch it again, or pass another {self._option}"
            )
        return self._files[name]

    def _handle(self, path: Path) -> Any:
        if path not in self._open:
            self._open[path] = _opened(path, self._option)
        return self._open[path]


def open_shards(place: Path, option: str = "model.path") -> Shards:
    """The tensors of a safetensors file, or of a folder with one or with an index of several.

    Raises:
        RowcastError: if files are missing or broken.
    """
    if place.is_file():
        return _whole(place, option)
    # Where both are, transformers reads the single file too.
    if (place / SINGLE).is_file() or not (place / INDEX).is_file():
        return _whole(place / SINGLE, option)
    files = {name: place / file for name, file in weight_map(place / INDEX, option).items()}
    for path in sorted(set(files.values())):
        if not path.is_file():
            raise RowcastError(
                f"expected {path.name} beside {INDEX}, found no such file in {place}: "
                f"fetch it, or pass another {option}"
            )
    return Shards(files, option)


def _whole(path: Path, option: str) -> Shards:
    return Shards(dict.fromkeys(_opened(path, option).keys(), path), option)


def _opened(path: Path, option: str) -> Any:
    try:
        return safe_open(path, framework="pt", device="cpu")
    except (OSError, SafetensorError) as error:
        raise _broken(path, error, option) from error


def _broken(path: Path, error: Exception, option: str) -> RowcastError:
    return RowcastError(
        f"expected a whole safetensors file, found {first_line(error)} in {path}: "
        f"fetch it again, or pass another {option}"
    )


def weight_map(index: Path, option: str) -> dict[str, str]:
    """The file of each tensor, which lies beside the index.

    Raises:
        RowcastError: if the index is broken or empty, or names files elsewhere.
    """
    try:
        files = dict(json.loads(index.read_text())["weight_map"])
        found = "" if files else "an empty one"
    except (OSError, ValueError, KeyError, TypeError) as error:
        files, found = {}, first_line(error)
    for name, file in files.items():
        if not isinstance(file, str) or Path(file).name != file:
            found = f"{file!r} for {name}, which is no file beside it,"
    if found:
        raise RowcastError(
            f"expected an index of tensors with a weight_map, found {found} in {index}: "
            f"fetch it again, or pass another {option}"
        )
    return files
