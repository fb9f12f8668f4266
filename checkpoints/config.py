"""`config.json` of a head bundle: what the heads are, what made them, and what they fit."""

import json
import re
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from backbones.contract import Backbone, Sampling
from backbones.errors import RowcastError
from backbones.fingerprint import NORM_TAP
from backbones.rules import Rule, count, rule
from checkpoints.golden import Golden
from checkpoints.json_file import damaged, read_json
from checkpoints.places import HubPlace, hub_place
from heads.contract import DraftHeads
from heads.options import HEADS, parse_heads

CONFIG_FILE = "config.json"
SCHEMA_VERSION = 2
OLD_VERSION = 1
"""Knew the heads of SSD alone, and did not name them."""
LARGEST = 1 << 20
"""Bytes of the file; ours are a few thousand."""
STORED_DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
"""Dtypes that a bundle may hold: torch's name and the one in a safetensors header."""
_PLAIN = re.compile(r"[\w.-]{1,64}", re.ASCII)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class CommonFacts:
    """What every kind of heads has."""

    name: str
    """The kind of heads, in `heads.options.HEADS`."""
    width: int = field(metadata=count(1, 1_000_000))
    dtype: str
    """Of the stored weights, as torch names it."""


@dataclass(frozen=True, kw_only=True)
class HeadFacts(CommonFacts):
    """Everything that decides the names and shapes of the weights."""

    options: Any
    """An instance of the kind's options; in the file they stand beside the other facts."""

    @classmethod
    def of(cls, heads: DraftHeads) -> "HeadFacts":
        """The facts of live heads.

        Raises:
            RowcastError: if the heads mix dtypes, have one that a bundle does not hold, or have an option out
                of range.
        """
        dtypes = sorted({str(weight.dtype).removeprefix("torch.") for weight in heads.parameters()})
        if len(dtypes) != 1 or dtypes[0] not in STORED_DTYPES:
            raise RowcastError(
                f"expected draft heads in one of {', '.join(STORED_DTYPES)}, found {' and '.join(dtypes)}; "
                "cast them, as in bank.float()"
            )
        name, options = parse_heads(heads.facts)
        return cls(name=name, width=heads.width, dtype=dtypes[0], options=options)

    def as_json(self) -> dict[str, object]:
        """The facts as one flat object."""
        return {"name": self.name, "width": self.width, "dtype": self.dtype, **asdict(self.options)}


@dataclass(frozen=True, kw_only=True)
class BackboneFacts:
    """The backbone that the heads were trained for."""

    name: str = field(metadata=rule("a plain name", lambda name: bool(_PLAIN.fullmatch(name))))
    rows: int
    cols: int
    codes: int
    width: int
    dtype: str
    states: str
    """Which side of the final norm the heads read and predict."""
    fingerprint: str
    source: str | None = field(
        metadata=rule("organisation/repository@commit", lambda text: bool(hub_place(text, with_file=True)))
    )
    """Where a hub has its weights; null where they were local, and in the first bundles."""

    @property
    def origin(self) -> HubPlace | None:
        """The source by its parts."""
        return None if self.source is None else hub_place(self.source, with_file=True)

    def differences(self, other: "BackboneFacts") -> list[str]:
        """The facts that differ. Where the weights came from may: the fingerprint is of the weights."""
        names = [entry.name for entry in fields(self) if entry.name != "source"]
        return [name for name in names if getattr(self, name) != getattr(other, name)]

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
            source=backbone.source,
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
    golden: Golden | None = None
    """What the backbone computed; none in the first bundles."""

    def as_json(self) -> dict[str, object]:
        """The whole of the file, as JSON values."""
        return {**asdict(self), "heads": self.heads.as_json()}


def read_config(folder: Path) -> BundleConfig:
    """The config of the bundle in `folder`.

    Raises:
        RowcastError: if there is no bundle, or one that this version cannot read.
    """
    path = folder / CONFIG_FILE
    try:
        data: Any = read_json(path, LARGEST)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RowcastError(
            f"expected a head bundle in {folder}, found no {CONFIG_FILE}; train one with `python -m train`"
        ) from error
    except OSError as error:
        raise RowcastError(f"expected to read {path}, found {error.strerror}; check the path") from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version == OLD_VERSION and isinstance(data.get("heads"), dict):
        data = {**data, "schema_version": SCHEMA_VERSION, "heads": {"name": "ssd", **data["heads"]}}
    elif version != SCHEMA_VERSION:
        raise RowcastError(
            f"expected {path} in schema version {SCHEMA_VERSION}, found {version!r}; "
            "use the Rowcast version that wrote it, or train again with `python -m train`"
        )
    if isinstance(backbone := data.get("backbone"), dict):
        data = {**data, "backbone": {"source": None, **backbone}}  # the first bundles do not say it
    if isinstance(heads := data.get("heads"), dict) and heads.get("name") == "ssd":
        # Nor did the first ones have a correction head, or the choices that came after it.
        earlier = {"correction": 0.0, "law_weight": 0.0, "columns": 1, "draft_law_weight": 0.0}
        data = {**data, "heads": {**earlier, **heads}}
    if isinstance(data, dict):
        data = {"golden": None, **data}
    return _parse(BundleConfig, data, path, "")


def _parse(kind: type[T], data: object, path: Path, where: str) -> T:
    """Builds dataclass `kind` from JSON `data`; every key and type must be the declared one."""
    expected = get_type_hints(kind)
    if not isinstance(data, dict) or set(data) != set(expected):
        found = f"keys {', '.join(sorted(data))}" if isinstance(data, dict) else repr(data)[:80]
        raise damaged(path, f"{found} in place of keys {', '.join(sorted(expected))} at {where or 'the top'}")
    values: dict[str, Any] = {}
    rules = {entry.name: entry.metadata.get("rule") for entry in fields(kind)}  # pyright: ignore
    for name, hint in expected.items():
        value, place = data[name], where + name
        kinds = (hint, *get_args(hint))
        nested = next((each for each in kinds if isinstance(each, type) and is_dataclass(each)), None)
        if nested is not None and not (value is None and NoneType in get_args(hint)):
            parse = _parse_heads if nested is HeadFacts else partial(_parse, nested)
            values[name] = parse(value, path, f"{place}.")
            continue
        allowed = get_args(hint) if isinstance(hint, UnionType) else (get_origin(hint) or hint,)
        if float in allowed and type(value) is int and abs(value) < 2**53:
            value = float(value)
        if type(value) not in allowed:
            types = " or ".join("null" if kind is NoneType else kind.__name__ for kind in allowed)
            raise damaged(path, f"{place} = {json.dumps(value)[:80]} in place of {types}")
        wanted: Rule | None = rules.get(name)
        if not (wanted is None or value is None or wanted.holds(value)):
            raise damaged(path, f"{place} = {json.dumps(value)[:80]} in place of {wanted.text}")
        values[name] = value
    return kind(**values)


def _parse_heads(data: object, path: Path, where: str) -> HeadFacts:
    """The facts of the heads; which keys there must be depends on their kind."""
    kind = data.get("name") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(kind, str) or kind not in HEADS:
        found = json.dumps(kind if isinstance(data, dict) else data)[:80]
        raise damaged(path, f"{where}name = {found} in place of {' or '.join(HEADS)}")
    options = {entry.name: data[entry.name] for entry in fields(HEADS[kind]) if entry.name in data}
    common = {key: value for key, value in data.items() if key not in options}
    parsed = _parse(CommonFacts, common, path, where)
    return HeadFacts(**vars(parsed), options=_parse(HEADS[kind], options, path, where))
