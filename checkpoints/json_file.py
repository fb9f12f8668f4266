"""The JSON of a bundle: strict, finite, and of a size that JSON written by Rowcast has."""

import json
from collections.abc import Mapping
from pathlib import Path

from backbones.errors import RowcastError


def json_text(values: Mapping[str, object]) -> str:
    """Strict JSON for people to read.

    Raises:
        RowcastError: if a number is not finite.
    """
    try:
        return json.dumps(values, indent=2, allow_nan=False) + "\n"
    except ValueError as error:
        raise RowcastError(
            f"expected finite numbers to write down, found {error}; leave out what could not be measured"
        ) from error


def read_json(path: Path, largest: int) -> object:
    """What the file says.

    Args:
        path: the file.
        largest: bytes from which on it is not even read.

    Raises:
        OSError: if it cannot be read.
        RowcastError: if it is larger, or not JSON.
    """
    size = path.stat().st_size
    if size > largest and path.is_file():
        raise damaged(path, f"a file of {size:,} bytes")
    try:
        return json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"text that is not JSON ({error})") from error


def damaged(path: Path, found: str) -> RowcastError:
    """The error about a file that Rowcast did not write so."""
    return RowcastError(f"expected {path} as Rowcast writes it, found {found}; copy the bundle again")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
