"""Plain JSON values as dataclasses, checked against their types: the inverse of `dataclasses.asdict`."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from backbones.errors import RowcastError

T = TypeVar("T")


def read_typed(kind: type[T], value: object, place: str) -> T:
    """`value` as a `kind`.

    Args:
        kind: a dataclass of numbers, texts, lists, tuples, mappings with text keys and dataclasses.
        value: what `json.loads` gave.
        place: the file, for the error.

    Raises:
        RowcastError: naming the entry that is missing, unknown or of another type.
    """
    return _read(kind, value, place)


def _read(kind: Any, value: Any, place: str) -> Any:
    if isinstance(kind, UnionType):
        [inner] = [argument for argument in get_args(kind) if argument is not NoneType]
        return None if value is None else _read(inner, value, place)
    if is_dataclass(kind):
        return _dataclass(kind, value, place)
    if get_origin(kind) is not None:
        return _several(kind, value, place)
    if kind is float and type(value) is int:
        return float(value)
    if kind is not object and type(value) is not kind:
        raise _wrong(place, kind.__name__, value)
    return value


def _several(kind: Any, value: Any, place: str) -> Any:
    """A list, a tuple of fixed length or a mapping."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is list and isinstance(value, list):
        return [_read(arguments[0], entry, f"{place}, {number}") for number, entry in enumerate(value)]
    if origin is tuple and isinstance(value, list) and len(value) == len(arguments):
        return tuple(_read(part, entry, place) for part, entry in zip(arguments, value, strict=True))
    if origin in (dict, Mapping) and isinstance(value, dict):
        return {name: _read(arguments[1], entry, f"{place}, {name}") for name, entry in value.items()}
    raise _wrong(place, str(kind), value)


def _dataclass(kind: Any, value: object, place: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(place, "an object", value)
    hints = get_type_hints(kind)
    names = [entry.name for entry in fields(kind)]
    if set(names) != value.keys():
        odd = sorted(set(names) ^ value.keys())
        raise _wrong(place, f"entries {', '.join(names)}", ", ".join(odd) + " missing or unknown")
    return kind(**{name: _read(hints[name], value[name], f"{place}, {name}") for name in names})


def _wrong(place: str, wanted: str, found: object) -> RowcastError:
    return RowcastError(f"expected {wanted} at {place}, found {str(found)[:60]!r}: measure again")
