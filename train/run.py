"""The folder of a training run: who may write to it, what it was started with, where it goes on from.

config.yaml      every option of the last session
run.json         what the weights depend on; a run only goes on under the same
metrics.csv      learning.json   checkpoints/   validation/   heads/   benchmark/   wandb/   tensorboard/
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backbones.durable import only_writer, write_durably
from backbones.errors import RowcastError
from train.learning import LEARNING
from train.loggers import FILE, TENSORBOARD
from train.saving import check_readable, checkpoints, step_of

AUTO, ANEW = "auto", "false"
"""What `resume` may be, besides the path of a checkpoint."""
BENCHMARK = "benchmark"
CHECKPOINTS = "checkpoints"
CONTRACT = "run.json"
CONFIG = "config.yaml"
HEADS = "heads"
VALIDATION = "validation"
ENTRIES = (CHECKPOINTS, CONFIG, FILE, VALIDATION, HEADS, LEARNING, BENCHMARK, "wandb", TENSORBOARD, CONTRACT)
"""All that a run keeps in its folder; what else is there is somebody else's."""


@contextmanager
def occupied(folder: Path) -> Iterator[None]:
    """Makes the folder and holds its lock.

    Raises:
        RowcastError: if the folder cannot be written, or another process trains in it.
    """
    try:
        lock = only_writer(folder, "folder=")
    except OSError as error:
        raise unwritable(folder, error) from error
    with lock:
        yield


def require_apart(folder: Path, rollouts: Path) -> None:
    """Refuses rollouts among the files of the run, which would be mixed up and set aside with them.

    Raises:
        RowcastError: if `rollouts` is the run's folder or in one of its entries.
    """
    run, other = folder.resolve(), rollouts.resolve()
    if other == run or any(other.is_relative_to(run / entry) for entry in ENTRIES):
        raise RowcastError(
            f"expected rollouts.folder apart from the files of the run in {folder}, found {rollouts}: "
            f"set rollouts.folder={folder / 'rollouts'} or another folder"
        )


def set_aside(folder: Path) -> Path | None:
    """Moves the files of an earlier run to a new folder beside its own; that folder, if there was a run.

    Call it while the folder is `occupied`, so that no live run loses its files.
    """
    found = [entry for entry in ENTRIES if (folder / entry).exists()]
    if not found:
        return None
    whole, number = folder.resolve(), 1
    while (aside := whole.with_name(f"{whole.name}.{number}")).exists():
        number += 1
    try:
        aside.mkdir()
        for entry in found:
            (whole / entry).rename(aside / entry)
    except OSError as error:
        raise unwritable(folder, error) from error
    return aside


def require_origin(resume: str, contract: Mapping[str, Any]) -> None:
    """Makes sure that a checkpoint of another run was made under this run's options.

    Its optimiser comes with it, so other options would be ignored; `trainer.steps` alone may differ.

    Args:
        resume: `auto`, `false` or the path of a checkpoint.
        contract: What the weights depend on, as `enter` takes it.

    Raises:
        RowcastError: naming every differing option with both values; if it is past the last step.
    """
    if resume in (AUTO, ANEW):
        return
    path = Path(resume).resolve()
    beside = path.parents[1] / CONTRACT
    if not beside.exists():
        raise RowcastError(
            f"expected {beside} with the options behind {resume}, found none: "
            "leave the checkpoint in the folder of its run"
        )
    started, wanted = _read_contract(beside), _as_read(contract)
    steps = {"trainer.steps": wanted.get("trainer.steps")}
    if differing := _differing(started | steps, wanted):
        raise RowcastError(
            f"expected the options that {resume} was trained with, {differing}: "
            "set them so, or train from the start with resume=auto"
        )
    if step_of(path) > contract["trainer.steps"]:
        raise RowcastError(
            f"expected a checkpoint of at most trainer.steps={contract['trainer.steps']} steps, "
            f"found {resume}: raise trainer.steps or resume from an earlier one"
        )


def enter(folder: Path, contract: Mapping[str, Any], config: str) -> None:
    """Starts a run in the folder, or makes sure that the run in it was started with the same contract.

    Args:
        folder: The run's folder.
        contract: What the weights depend on, flat: option -> value.
        config: The options of this session, as YAML.

    Raises:
        RowcastError: naming every differing option with both values; if checkpoints lie there without a
            contract.
    """
    path = folder / CONTRACT
    wanted = _as_read(contract)
    try:
        if not path.exists() and checkpoints(folder / CHECKPOINTS):
            raise RowcastError(
                f"expected {path} with the options behind the checkpoints in {folder}, found none: choose "
                "another folder=, or start anew with resume=false (the old run is moved aside)"
            )
        if path.exists() and (differing := _differing(_read_contract(path), wanted)):
            raise _others(folder, differing)
        if not path.exists():
            write_durably(path, (json.dumps(wanted, indent=1) + "\n").encode())
        write_durably(folder / CONFIG, config.encode())
    except OSError as error:
        raise unwritable(folder, error) from error


def require_options(folder: Path, resume: str, options: Mapping[str, Any]) -> None:
    """Refuses before any work what `enter` would refuse later.

    Args:
        folder: The run's folder.
        resume: `auto`, `false` or the path of a checkpoint; the last two bind nobody to this folder's run.
        options: Those of a contract that are known from the start.

    Raises:
        RowcastError: as `enter`.
    """
    if resume == AUTO and (started := contract_of(folder)):
        wanted = _as_read(options)
        if differing := _differing({name: started.get(name) for name in wanted}, wanted):
            raise _others(folder, differing)


def _others(folder: Path, differing: str) -> RowcastError:
    return RowcastError(
        f"expected the options that the run in {folder} was started with, {differing}: set them so, "
        "choose another folder=, or start anew with resume=false (the old run is moved aside)"
    )


def resume_point(folder: Path, resume: str) -> Path | None:
    """The checkpoint to go on from, none for a run from the start.

    Args:
        folder: The run's folder.
        resume: `auto` for the folder's last checkpoint, `false`, or the path of a checkpoint.

    Raises:
        RowcastError: if the checkpoint is missing, damaged, or older than one that the folder has.
    """
    own = checkpoints(folder / CHECKPOINTS)
    if resume == AUTO:
        chosen = own[-1] if own else None
    elif resume == ANEW:
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


def contract_of(folder: Path) -> dict[str, Any]:
    """The contract of the run in a folder; empty where there is none.

    Raises:
        RowcastError: if it can't be read.
    """
    path = folder / CONTRACT
    return _read_contract(path) if path.is_file() else {}


def _read_contract(path: Path) -> dict[str, Any]:
    try:
        contract = json.loads(path.read_bytes())
        if not isinstance(contract, dict):
            raise ValueError(f"{contract!r:.40}")
    except (ValueError, RecursionError) as error:
        raise RowcastError(
            f"expected the contract of a run in {path}, found {error}: start anew with resume=false"
        ) from None
    return contract


def _as_read(contract: Mapping[str, Any]) -> dict[str, Any]:
    """A contract as it comes back from its file: lists in place of tuples."""
    return json.loads(json.dumps(contract))


def _differing(started: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The options whose values differ, with both values; empty if none do."""
    names = [name for name in {**wanted, **started} if wanted.get(name) != started.get(name)]
    return ", ".join(f"{name}={started.get(name)} (now {wanted.get(name)})" for name in names)


def unwritable(folder: Path, error: OSError) -> RowcastError:
    """The error of a folder that cannot be written; what is in it stays."""
    return RowcastError(
        f"expected to write to {folder}, found: {error.strerror or error}; "
        "free or permit the space, or set another folder="
    )
