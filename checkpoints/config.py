"""`config.json` of a head bundle: what the heads are, what made them, and what they fit."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from backbones.contract import Backbone, Sampling
from backbones.errors import RowcastError
from backbones.fingerprint import NORM_TAP
from heads.bank import HeadBank

CONFIG_FILE = "config.json"
SCHEMA_VERSION = 1
STORED_DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
"""Dtypes that a bundle may hold: torch's name and the one in a safetensors header."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class HeadFacts:
    """Everything that decides the names and shapes of the weights."""

    width: int
    horizontal: int
    vertical: int
    hidden: float
    dtype: str
    """Of the stored weights, as torch names it."""

    @classmethod
    def of(cls, bank: HeadBank) -> "HeadFacts":
        """The facts of live heads.

        Raises:
            RowcastError: if the heads mix dtypes, or have one that a bundle does not hold.
        """
        dtypes = sorted({str(weight.dtype).removeprefix("torch.") for weight in bank.parameters()})
        if len(dtypes) != 1 or dtypes[0] not in STORED_DTYPES:
            raise RowcastError(
                f"expected draft heads in one of {', '.join(STORED_DTYPES)}, found {' and '.join(dtypes)}; "
                "cast them, as in bank.float()"
            )
        return cls(
            width=bank.width,
            horizontal=bank.horizontal,
            vertical=bank.vertical,
            hidden=bank.hidden,
            dtype=dtypes[0],
        )


@dataclass(frozen=True, kw_only=True)
class BackboneFacts:
    """The backbone that the heads were trained for."""

    name: str
    rows: int
    cols: int
    codes: int
    width: int
    dtype: str
    states: str
    """Which side of the final norm the heads read and predict."""
    fingerprint: str

    @classmethod
    def of(cls, backbone: Backbone) -> "BackboneFacts":
        return cls(
            name=backbone.name,
            rows=backbone.grid.rows,
            cols=backbone.grid.cols,
            codes=backbone.codes,
            width=backbone.width,
            dtype=str(backbone.dtype).removeprefix("torch."),
            states=NORM_TAP,
            fingerprint=backbone.fingerprint,
        )


@dataclass(frozen=True, kw_only=True)
class BundleConfig:
    """The whole of `config.json`."""

    schema_version: int
    heads: HeadFacts
    backbone: BackboneFacts
    sampling: Sampling
    """What the rollouts were sampled with; acceptance is measured under it."""
    training: dict[str, object]
    metrics: dict[str, object]
    weights_sha256: str
    """Of the weights file, so that an altered or mixed-up bundle is noticed."""


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


def read_config(folder: Path) -> BundleConfig:
    """The config of the bundle in `folder`.

    Raises:
        RowcastError: if there is no bundle, or one that this version cannot read.
    """
    path = folder / CONFIG_FILE
    try:
        data = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RowcastError(
            f"expected a head bundle in {folder}, found no {CONFIG_FILE}; train one with `python -m train`"
        ) from error
    except OSError as error:
        raise RowcastError(f"expected to read {path}, found {error.strerror}; check the path") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"text that is not JSON ({error})") from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise RowcastError(
            f"expected {path} in schema version {SCHEMA_VERSION}, found {version!r}; "
            "use the Rowcast version that wrote it, or train again with `python -m train`"
        )
    return _parse(BundleConfig, data, path, "")


def _parse(kind: type[T], data: object, path: Path, where: str) -> T:
    """Builds dataclass `kind` from JSON `data`; every key and type must be the declared one."""
    expected = get_type_hints(kind)
    if not isinstance(data, dict) or set(data) != set(expected):
        found = f"keys {', '.join(sorted(data))}" if isinstance(data, dict) else repr(data)[:80]
        raise _damaged(
            path, f"{found} in place of keys {', '.join(sorted(expected))} at {where or 'the top'}"
        )
    values: dict[str, Any] = {}
    for name, hint in expected.items():
        value, place = data[name], where + name
        if isinstance(hint, type) and is_dataclass(hint):
            values[name] = _parse(hint, value, path, f"{place}.")
            continue
        allowed = get_args(hint) if isinstance(hint, UnionType) else (get_origin(hint) or hint,)
        if float in allowed and type(value) is int and abs(value) < 2**53:
            value = float(value)
        if type(value) not in allowed:
            types = " or ".join("null" if kind is NoneType else kind.__name__ for kind in allowed)
            raise _damaged(path, f"{place} = {json.dumps(value)[:80]} in place of {types}")
        values[name] = value
    return kind(**values)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _damaged(path: Path, found: str) -> RowcastError:
    return RowcastError(
        f"expected a config written by Rowcast in {path}, found {found}; copy the bundle again"
    )
