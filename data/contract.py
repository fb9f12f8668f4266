"""What a set of rollouts was made with: `contract.json`, written once and compared at every later use.

Two images may stand in one set only if everything here is equal, so a set never mixes two models,
two samplings or two prompt lists.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from backbones.contract import Backbone, Grid, Sampling
from backbones.errors import RowcastError
from data.durable import disk_errors
from data.record import from_json
from data.storage import Storage

SCHEMA = 2
FILE = "contract.json"
OPTIONS = {"prompts": "the hash of rollouts.prompts", "seed": "rollouts.seed", "backbone": "model.name"}
"""How a user knows a field that has another name here."""


@dataclass(frozen=True, kw_only=True)
class Contract:
    """The facts that all images of a set share."""

    schema: int = SCHEMA
    """Version of the files' layout."""
    backbone: str
    fingerprint: str
    """`Backbone.fingerprint`: weights, codebook, grid, norm tap and dtype."""
    grid: Grid
    codes: int
    """V, so a stored token is in `0..V-1`."""
    sampling: Sampling
    seed: int
    prompts: str
    """Hash of the set of prompts; the order of a prompt list does not matter."""

    @classmethod
    def of(cls, backbone: Backbone, sampling: Sampling, seed: int, prompts: Sequence[str]) -> "Contract":
        """The contract of rollouts that would be made now."""
        return cls(
            backbone=backbone.name,
            fingerprint=backbone.fingerprint,
            grid=backbone.grid,
            codes=backbone.codes,
            sampling=sampling,
            seed=seed,
            prompts=hashlib.sha256(json.dumps(sorted(set(prompts))).encode()).hexdigest(),
        )

    def check(self, place: str, wanted: "Contract") -> None:
        """Compares with what a caller needs.

        Raises:
            RowcastError: if a field differs; every differing field is named with both values.
        """
        made, needed = _flat(asdict(self)), _flat(asdict(wanted))
        differing = [name for name in needed if made.get(name) != needed[name]]
        if differing:
            parts = ", ".join(
                f"{OPTIONS.get(name, name)} {_shown(needed[name])} (found {_shown(made.get(name))})"
                for name in differing
            )
            raise RowcastError(
                f"expected rollouts with {parts} in {place}/{FILE}: "
                "set another rollouts.folder, or give the options that the folder was made with "
                "(a fingerprint is of the weights and of model.dtype)"
            )


def read_contract(storage: Storage) -> Contract:
    """Reads the contract of a set of rollouts.

    Raises:
        RowcastError: if there is none, or if it is not one of this version.
    """
    place = storage.place
    try:
        record = json.loads(storage.read(FILE))
        if isinstance(record, dict) and record.get("schema") != SCHEMA:
            raise ValueError(f"schema {record.get('schema')!r} is not {SCHEMA}")
        return from_json(Contract, record)
    except FileNotFoundError:
        raise RowcastError(
            f"expected rollouts in {place}, found no {FILE}: run `python -m data rollouts.folder={place}`"
        ) from None
    except (ValueError, OSError) as error:
        raise RowcastError(
            f"expected a rollout contract of this version in {place}/{FILE}, found: {error}; "
            "restore the file, or set another rollouts.folder"
        ) from None


def write_contract(storage: Storage, contract: Contract) -> None:
    """Writes the contract of a new set."""
    with disk_errors(storage.place):
        storage.write(FILE, (json.dumps(asdict(contract), indent=1) + "\n").encode())


def _shown(value: object) -> str:
    """Hashes by their beginning."""
    text = str(value)
    return text if len(text) <= 24 else f"{text[:12]}..."


def _flat(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"grid": {"rows": 3}}` as `{"grid.rows": 3}`."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
