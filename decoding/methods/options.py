"""The options of the decoders, checked: the YAML decoder groups in typed form."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from backbones.errors import RowcastError

MOST_ROUNDS = 1000
"""More than a block of any model's rows has drafts, after which rounds change nothing."""


@dataclass(frozen=True, kw_only=True)
class FirstRow:
    """How row 0 is painted, which has no row above it."""

    block: int = 5
    """Tokens drafted at a time: one for each horizontal head used; null in the YAML group takes all."""
    rounds: int = 1
    """Verification rounds of each block."""
    bonus_token: bool = False
    """Draw one more token of each block from the exact law that the commit before it left."""


@dataclass(frozen=True, kw_only=True)
class SSDOptions:
    """The schedule of Spatially Speculative Decoding; the defaults are the paper's best setting."""

    rounds: int = 2
    """Verification rounds of each block of rows."""
    rows: int = 1
    """Rows drafted together, 1 or 2."""
    staged_rounds: int = 0
    """With two rows: further rounds for the lower one after the upper one is final."""
    first_row: FirstRow = FirstRow()


@dataclass(frozen=True, kw_only=True)
class WindowOptions:
    """The one choice of the lossless decoders with a window."""

    window: int = 40
    """Tokens fed a forward: one that is final, the others drafts; 1 is plain autoregression."""


def parse_ssd(options: Mapping[str, object], reach: int = 5) -> SSDOptions:
    """Options as the YAML group `decoder` has them (without `name`); what is absent keeps its default.

    Args:
        options: names and values.
        reach: horizontal heads, which `first_row.block` is where it is null or absent.

    Raises:
        RowcastError: if an option is unknown, of another type or out of range.
    """
    known = _known(SSDOptions, options, "decoder")
    first = known.pop("first_row", {})
    if not isinstance(first, Mapping):
        raise RowcastError(
            f"expected decoder.first_row to hold block, rounds and bonus_token, found {first!r}: "
            "set decoder.first_row.block=5"
        )
    if first.get("block") is None:
        first = {**first, "block": reach}
    row = FirstRow(**_known(FirstRow, first, "decoder.first_row"))
    parsed = SSDOptions(first_row=row, **known)
    _check_range("decoder.rounds", parsed.rounds, 0, MOST_ROUNDS)
    _check_range("decoder.rows", parsed.rows, 1, 2)
    _check_range("decoder.staged_rounds", parsed.staged_rounds, 0, MOST_ROUNDS)
    _check_range("decoder.first_row.block", row.block, 1)
    _check_range("decoder.first_row.rounds", row.rounds, 0, MOST_ROUNDS)
    if parsed.staged_rounds and parsed.rows == 1:
        raise RowcastError(
            f"expected decoder.staged_rounds=0 with one row, found {parsed.staged_rounds}: set decoder.rows=2"
        )
    return parsed


def parse_window(options: Mapping[str, object]) -> WindowOptions:
    """As `parse_ssd`, for the decoders with a window.

    Raises:
        RowcastError: if an option is unknown, of another type or out of range.
    """
    parsed = WindowOptions(**_known(WindowOptions, options, "decoder"))
    _check_range("decoder.window", parsed.window, 1)
    return parsed


def refuse_options(name: str, options: Mapping[str, object]) -> None:
    """For a decoder without options.

    Raises:
        RowcastError: if there are any.
    """
    if options:
        found = ", ".join(map(str, options))
        raise RowcastError(f"expected no options for decoder {name}, found {found}: leave them out")


def _known(form: type, options: Mapping[str, object], where: str) -> dict[str, Any]:
    """Returns the options as a dictionary, if `form` has them all and their types fit."""
    defaults = {field.name: field.default for field in fields(form)}
    for name, value in options.items():
        if name not in defaults:
            raise RowcastError(
                f"expected options {', '.join(defaults)} in {where}, found {name}: correct its name"
            )
        kind = type(defaults[name])
        if kind in (int, bool) and type(value) is not kind:
            raise RowcastError(
                f"expected {where}.{name} of type {kind.__name__}, found {value!r}: correct it"
            )
    return dict(options)


def _check_range(name: str, found: int, low: int, high: int | None = None) -> None:
    if found < low or (high is not None and found > high):
        expected = f"{low} or more" if high is None else f"{low} to {high}"
        raise RowcastError(
            f"expected {name} {expected}, found {found}: set {name}={low if found < low else high}"
        )
