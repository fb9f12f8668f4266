"""Records from JSON files that anybody may have edited: names and types exactly as declared, or an error."""

from dataclasses import is_dataclass
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


def from_json(kind: type[T], record: object) -> T:
    """The dataclass `kind` from a decoded JSON object.

    Raises:
        ValueError: naming the first field that is missing, unknown or of another type.
    """
    hints = get_type_hints(kind)
    if not isinstance(record, dict) or set(record) != set(hints):
        found = ", ".join(sorted(record)) if isinstance(record, dict) else f"{record!r:.40}"
        raise ValueError(f"the fields {', '.join(sorted(hints))} are expected in place of {found}")
    values: dict[str, Any] = {}
    for name, hint in hints.items():
        value = record[name]
        if isinstance(hint, type) and is_dataclass(hint):
            value = from_json(hint, value)
        elif not _fits(value, hint):
            raise ValueError(f"{name} is {value!r:.40}")
        values[name] = value
    return kind(**values)


def _fits(value: object, hint: Any) -> bool:
    if isinstance(hint, UnionType):
        return any(_fits(value, choice) for choice in get_args(hint))
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(part, get_args(hint)[0]) for part in value)
    # A bool is no number; a whole number is a float.
    return type(value) is hint or (hint is float and type(value) is int)
