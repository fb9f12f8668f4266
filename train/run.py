"""The folder of a training run: who may write to it, what it was started with, where it goes on from.

config.yaml      every option of the last session
contract.json    what the weights depend on; a run only goes on under the same
metrics.csv      checkpoints/   validation/   heads/   benchmark/   wandb/
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backbones.durable import only_writer, write_durably
from backbones.errors import RowcastError
from train.saving import check_readable, checkpoints, step_of

CHECKPOINTS = "checkpoints"
CONTRACT = "contract.json"
CONFIG = "config.yaml"
HEADS = "heads"
VALIDATION = "validation"


@contextmanager
def occupied(folder: Path) -> Iterator[None]:
    """Makes the folder and holds its lock.

    Raises:
        RowcastError: if the folder cannot be written, or another process trains in it.
    """
    try:
        lock = only_writer(folder, "folder=")
    except OSError as error:
        raise _unwritable(folder, error) from error
    with lock:
        yield


def set_aside(folder: Path) -> Path | None:
    """Renames the folder of an earlier run, so that nothing in it is lost; its new name, if there was one."""
    if not (folder / CONTRACT).exists():
        return None
    number = 1
    while (aside := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    try:
        folder.rename(aside)
    except OSError as error:
        raise _unwritable(folder, error) from error
    return aside


def enter(folder: Path, contract: Mapping[str, Any], config: str) -> None:
    """Starts a run in the folder, or makes sure that the run in it was started with the same contract.

    Args:
        folder: The run's folder.
        contract: What the weights depend on, flat: option -> value.
        config: The options of this session, as YAML.

    Raises:
        RowcastError: naming every differing option with both values.
    """
    path = folder / CONTRACT
    wanted = json.loads(json.dumps(contract))
    try:
        started = _read_contract(path) if path.exists() else wanted
        differing = [name for name in {**wanted, **started} if wanted.get(name) != started.get(name)]
        if differing:
            parts = ", ".join(f"{name}={started.get(name)} (now {wanted.get(name)})" for name in differing)
            raise RowcastError(
                f"expected the options that the run in {folder} was started with, {parts}: set them so, "
                "choose another folder=, or start anew with resume=false (the old run is moved aside)"
            )
        if not path.exists():
            write_durably(path, (json.dumps(wanted, indent=1) + "\n").encode())
        write_durably(folder / CONFIG, config.encode())
    except OSError as error:
        raise _unwritable(folder, error) from error


def resume_point(folder: Path, resume: str) -> Path | None:
    """The checkpoint to go on from, none for a run from the start.

    Args:
        folder: The run's folder.
        resume: `auto` for the folder's last checkpoint, `false`, or the path of a checkpoint.

    Raises:
        RowcastError: if the checkpoint is missing, damaged, or older than one that the folder has.
    """
    own = checkpoints(folder / CHECKPOINTS)
    if resume == "auto":
        chosen = own[-1] if own else None
    elif resume == "false":
        chosen = None
    else:
        chosen = Path(resume)
        if own and step_of(own[-1]) > step_of(chosen):
            raise RowcastError(
                f"expected {chosen} to be the last checkpoint of {folder}, found {own[-1].name}: "
                "set resume=auto to go on from there, or another folder= to branch off"
            )
    if chosen is not None:
        step_of(chosen)
        check_readable(chosen)
    return chosen


def flat(options: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"trainer": {"steps": 3}}` as `{"trainer.steps": 3}`."""
    result: dict[str, Any] = {}
    for name, value in options.items():
        nested = isinstance(value, Mapping)
        result |= flat(value, f"{prefix}{name}.") if nested else {f"{prefix}{name}": value}
    return result


def _read_contract(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except ValueError as error:
        raise RowcastError(
            f"expected the contract of a run in {path}, found {error}: start anew with resume=false"
        ) from None


def _unwritable(folder: Path, error: OSError) -> RowcastError:
    return RowcastError(
        f"expected to write to {folder}, found: {error.strerror or error}; "
        "free or permit the space, or set another folder="
    )
