"""Heads that a run trains on from: a bundle gives the first weights, and the run's contract remembers which.

A run that has a checkpoint needs the bundle no more: what its contract says is enough to go on.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from backbones.contract import Backbone
from backbones.errors import RowcastError
from checkpoints.bundle import load_bundle
from checkpoints.config import read_config
from checkpoints.hub import on_hub, resolve
from heads.contract import DraftHeads
from heads.options import parse_heads
from train import run
from train.saving import checkpoints

PLACE, WEIGHTS, HUB = "start_from.place", "start_from.weights_sha256", "start_from.on_hub"
"""Entries of a run's contract."""
HEADS = "heads."
"""Where a contract has the options of the heads."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The bundle behind a run's first weights."""

    place: str
    """As the user wrote it: a folder, or a name on the hub."""
    weights_sha256: str
    on_hub: bool
    heads: dict[str, Any]
    """The kind of the heads, `name`, and their options."""

    def contract(self) -> dict[str, Any]:
        """What the run's contract says of it, beside the options of the heads."""
        return {PLACE: self.place, WEIGHTS: self.weights_sha256, HUB: self.on_hub}

    def record(self) -> dict[str, Any]:
        """What the new bundle says of it; a folder of this machine is nobody's business."""
        return {"heads": self.place if self.on_hub else None, "weights_sha256": self.weights_sha256}


def origin_of(place: str, folder: Path, resume: str) -> Origin:
    """The bundle at `place`: as the run in `folder` remembers it, or as it is.

    Args:
        place: a bundle's folder, or a name on the hub.
        folder: of the run.
        resume: the option; a run that starts anew remembers nothing.

    Raises:
        RowcastError: if a bundle is needed and there is none.
    """
    if resume != run.ANEW:
        runs = [folder] if resume == run.AUTO else [folder, *Path(resume).resolve().parents[1:2]]
        for contract in map(run.contract_of, runs):
            if contract.get(PLACE) == place:
                return _remembered(contract)
    config = read_config(resolve(place, weights=False))
    heads = {"name": config.heads.name, **asdict(config.heads.options)}
    return Origin(
        place=place, weights_sha256=config.weights_sha256, on_hub=on_hub(place) is not None, heads=heads
    )


def begin(bank: DraftHeads, origin: Origin, backbone: Backbone, folder: Path, resume: str) -> None:
    """Puts the bundle's weights into new heads, unless a checkpoint will bring others.

    Args:
        bank: the heads, as the options make them.
        origin: the bundle.
        backbone: that they will be trained for.
        folder: of the run.
        resume: the option.

    Raises:
        RowcastError: if the bundle holds other heads than the options say, was made for another backbone, or
            is not the one that the run was started from.
    """
    require_same(bank.facts, origin)
    if resume != run.ANEW and (resume != run.AUTO or checkpoints(folder / run.CHECKPOINTS)):
        return
    bundle = load_bundle(resolve(origin.place), backbone)
    if bundle.config.weights_sha256 != origin.weights_sha256:
        raise RowcastError(
            f"expected the weights {origin.weights_sha256[:16]} that {folder} was started from in "
            f"{origin.place}, found {bundle.config.weights_sha256[:16]}: start anew with resume=false"
        )
    bank.load_state_dict(bundle.bank.state_dict())


def require_same(facts: Mapping[str, Any], origin: Origin) -> None:
    """Refuses options that the heads of the bundle do not have.

    Raises:
        RowcastError: naming the first one.
    """
    (kind, options), (wanted, theirs) = parse_heads(facts), parse_heads(origin.heads)
    found, expected = {"name": kind, **asdict(options)}, {"name": wanted, **asdict(theirs)}
    for name in ("name", *expected):
        if found.get(name) != expected[name]:
            option = "heads" if name == "name" else f"heads.{name}"
            raise RowcastError(
                f"expected {option}={expected[name]} as in {origin.place}, found {option}={found.get(name)}: "
                "leave the option out, since the bundle decides"
            )


def _remembered(contract: Mapping[str, Any]) -> Origin:
    heads = {key.removeprefix(HEADS): value for key, value in contract.items() if key.startswith(HEADS)}
    return Origin(place=contract[PLACE], weights_sha256=contract[WEIGHTS], on_hub=contract[HUB], heads=heads)
