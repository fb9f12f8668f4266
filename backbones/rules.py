"""What an option's value must satisfy: metadata of dataclass fields, and plain values read into them.

Without torch, so that a mistake on the command line is answered at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import SequenceMatcher
from math import inf
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from backbones.errors import RowcastError

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a value must satisfy, in words and as a test."""

    text: str
    holds: Callable[[Any], bool]


def rule(text: str, holds: Callable[[Any], bool]) -> Mapping[str, Rule]:
    """Field metadata: the rule of a value that is not null."""
    return {"rule": Rule(text=text, holds=holds)}


def count(low: int, high: int = 1_000_000_000) -> Mapping[str, Rule]:
    """A number of things; the bound above catches slips that would eat the memory."""
    return rule(f"{low} to {high}", lambda value: low <= value <= high)


def seed_range() -> Mapping[str, Rule]:
    return rule("0 to 2**63 - 1", lambda value: 0 <= value < 2**63)


def at_least(low: int | float) -> Mapping[str, Rule]:
    return rule(f"a finite number of at least {low}", lambda value: low <= value < inf)


def above(low: int | float, high: int | float = inf) -> Mapping[str, Rule]:
    bound = "" if high == inf else f", at most {high}"
    return rule(f"a finite number above {low}{bound}", lambda value: low < value <= high and value < inf)


def within(low: int | float, high: int | float) -> Mapping[str, Rule]:
    return rule(f"{low} to {high}", lambda value: low <= value <= high)


def one_of(*names: str) -> Mapping[str, Rule]:
    return rule(f"one of {', '.join(names)}", lambda value: value in names)


def named(kinds: Mapping[str, type]) -> Mapping[str, Mapping[str, type]]:
    """Field metadata: a group of options whose form depends on the `name` in it."""
    return {"kinds": kinds}


def similarity(name: str, other: str) -> float:
    """Of full names, or of last parts where the writer left the prefix out or mistook it."""
    whole = SequenceMatcher(None, name, other).ratio()
    last = SequenceMatcher(None, name.rpartition(".")[2], other.rpartition(".")[2]).ratio()
    return max(whole, 0.95 * last)


def parse(form: type[T], values: object, where: str) -> T:
    """Plain values as an instance of the dataclass `form`; what is absent keeps its default.

    Args:
        form: a dataclass; fields may be numbers, texts, truth values, null, or dataclasses again.
        values: a mapping of names to values.
        where: the option that holds them, for the messages.

    Raises:
        RowcastError: for a name that is unknown or missing, a wrong type or a value against its rule.
    """
    if not isinstance(values, Mapping):
        raise RowcastError(f"option {where}: expected a group of options, found {values!r}")
    hints, entries = get_type_hints(form), {entry.name: entry for entry in fields(form)}  # pyright: ignore
    parsed: dict[str, Any] = {}
    for name, value in values.items():
        if name not in entries:
            nearest = max(entries, key=lambda other: similarity(str(name), other), default=None)
            hint = "it has no options" if nearest is None else f"did you mean {where}.{nearest}?"
            raise RowcastError(f"unknown option {where}.{name}: {hint}")
        parsed[str(name)] = _value(hints[str(name)], entries[str(name)].metadata, value, f"{where}.{name}")
    for name, entry in entries.items():
        if name not in parsed and entry.default is MISSING and entry.default_factory is MISSING:
            raise RowcastError(f"option {where}.{name} is missing: add {where}.{name}=...")
    return form(**parsed)


def _value(hint: Any, metadata: Mapping[str, Any], value: object, where: str) -> object:
    kinds: Mapping[str, type] | None = metadata.get("kinds")
    if kinds is not None:
        if not isinstance(value, Mapping) or value.get("name") not in kinds:
            found = value.get("name") if isinstance(value, Mapping) else value
            raise RowcastError(f"option {where}.name: expected one of {', '.join(kinds)}, found {found!r}")
        rest = {name: entry for name, entry in value.items() if name != "name"}
        return parse(kinds[value["name"]], rest, where)
    if is_dataclass(hint):
        return parse(hint, value, where)  # pyright: ignore[reportArgumentType]
    allowed = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if float in allowed and type(value) is int:
        value = float(value)
    if type(value) not in allowed:
        text = " or ".join("null" if kind is NoneType else kind.__name__ for kind in allowed)
        raise RowcastError(f"option {where}: expected {text}, found {value!r}")
    wanted: Rule | None = metadata.get("rule")
    if wanted is not None and value is not None and not wanted.holds(value):
        raise RowcastError(f"option {where}: expected {wanted.text}, found {value!r}")
    return value
