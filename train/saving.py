"""Checkpoints: whole or absent whenever the process is killed, the last two kept, alike for every strategy.

A checkpoint is one file, `step-000100.ckpt`, that torch reads without running code from it. Its parts:

state_dict          the weights, fp32, by name
optimizer_states    the moments, by the names of their parameters, and the learning rates
lr_schedulers       how far the schedule is
loops               how far the run is; in it the loader's position, counted in samples of all processes
images_a_step       of the processes that wrote it
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from backbones.durable import rename_durably, sync
from backbones.errors import RowcastError
from train.steps import step_ended

KEPT = 2
UNFINISHED = "unfinished.ckpt"
IMAGES_A_STEP = "images_a_step"
PARTS = {"state_dict", "optimizer_states", "lr_schedulers", "loops", IMAGES_A_STEP}
_NAME = re.compile(r"step-(\d{6,})\.ckpt")


def checkpoint_name(step: int) -> str:
    return f"step-{step:06d}.ckpt"


def step_of(path: Path) -> int:
    """The optimiser steps behind a checkpoint.

    Raises:
        RowcastError: if the path is not a checkpoint's.
    """
    match = _NAME.fullmatch(path.name)
    if match is None or not path.exists():
        raise RowcastError(
            f"expected a checkpoint such as {path.parent / checkpoint_name(100)}, found {path}: "
            "set resume=auto, or correct the path"
        )
    return int(match[1])


def checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints in a folder, oldest first."""
    found = [path for path in folder.glob("step-*.ckpt") if _NAME.fullmatch(path.name)]
    return sorted(found, key=step_of)


def read_heads(path: Path) -> dict[str, Tensor]:
    """The fp32 weights of the heads in a checkpoint, by their names in the bank.

    Raises:
        RowcastError: if the checkpoint cannot be read.
    """
    weights = bank_weights(load(path)["state_dict"])
    return {name: weight.contiguous().clone() for name, weight in weights.items()}


def bank_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a training module by their names in its bank."""
    return {name.removeprefix("bank."): weight for name, weight in weights.items()}


def check_readable(path: Path) -> None:
    """Finds out before training whether a checkpoint can be resumed from.

    Raises:
        RowcastError: if it cannot.
    """
    try:
        with ZipFile(path) as archive:  # torch stores checksums and never looks at them
            if altered := archive.testzip():
                raise ValueError(f"altered bytes in {altered}")
    except Exception as error:  # zipfile raises half a dozen kinds for a damaged file
        raise _damaged(path, str(error)) from error
    load(path)


def check_fits(path: Path, bank: Mapping[str, Tensor]) -> None:
    """Makes sure that a checkpoint was written by a training of such heads.

    Args:
        path: Of a checkpoint that is readable.
        bank: The weights of the heads by name.

    Raises:
        RowcastError: if it holds something else, or heads of other shapes.
    """
    if not (isinstance(found := load(path), dict) and set(found) >= PARTS):
        raise _damaged(path, f"no {' or '.join(sorted(PARTS))} in it")
    wanted = {name: list(weight.shape) for name, weight in bank.items()}
    heads = {name: list(weight.shape) for name, weight in read_heads(path).items()}
    for name in sorted(wanted.keys() | heads.keys()):
        if wanted.get(name) != heads.get(name):
            raise _damaged(path, f"{heads.get(name)} in place of {wanted.get(name)} at {name}")


def load(path: Path) -> dict[str, Any]:
    """The parts of a checkpoint; its tensors are views of the file.

    Raises:
        RowcastError: if it cannot be read.
    """
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # torch raises half a dozen kinds for a damaged file
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, found: str) -> RowcastError:
    reason = (found.splitlines() or ["a damaged file"])[0][:100]
    return RowcastError(
        f"expected a checkpoint of these heads in {path}, found: {reason}; "
        "remove it and run again to resume from the one before, or set resume=false"
    )


def save(checkpoint: Mapping[str, Any], path: Path) -> None:
    """Writes a checkpoint under another name, then gives it its own; a kill leaves it whole or unnamed.

    Raises:
        RowcastError: if a weight is not finite, or the disk refuses; earlier checkpoints are untouched.
    """
    _require_finite(checkpoint)
    temporary = path.with_name(UNFINISHED)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(checkpoint, temporary)
        publish(temporary, path)
    except (OSError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "inline_container" not in str(error):
            raise
        with suppress(OSError):  # half a checkpoint would keep a full disk full
            temporary.unlink(missing_ok=True)
        reason = getattr(error, "strerror", None) or "no space, or a disk that refuses to write"
        raise RowcastError(
            f"expected to write a checkpoint to {path.parent}, found: {reason}; "
            "earlier ones are kept: free or permit the space and run the same command again"
        ) from error


def write(checkpoint: Mapping[str, Any], path: Path) -> None:
    """Torch's format; its own function for paths reports a full disk less clearly."""
    with path.open("wb") as file:
        torch.save(checkpoint, file)


def publish(temporary: Path, target: Path) -> None:
    """Gives a complete checkpoint its name; a power cut leaves it whole or unnamed."""
    sync(temporary)
    rename_durably(temporary, target)


def _require_finite(checkpoint: Mapping[str, Any]) -> None:
    """A gradient that overflowed shows in the weights first, and must not reach a checkpoint."""
    for name, weight in checkpoint["state_dict"].items():
        if not weight.isfinite().all():
            raise RowcastError(
                f"expected finite weights, found NaN or infinity in {name} at step "
                f"{checkpoint['global_step']}; the last checkpoint is kept: lower trainer.learning_rate and "
                "run again with resume=false"
            )


class CheckpointKeeper(Callback):
    """Saves at the first step (a full disk shows before the work is done), every so often, and at the last.

    Args:
        folder: Where checkpoints go.
        every: Steps between them.
        images: In a step, of all processes; noted in the checkpoint.
    """

    def __init__(self, folder: Path, every: int, images: int) -> None:
        self._folder = folder
        self._every = every
        self._images = images

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.ckpt_path is None:
            self._save(trainer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        due = trainer.global_step % self._every == 0 or trainer.global_step == trainer.max_steps
        if due and step_ended(trainer, batch_idx):
            self._save(trainer)

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        checkpoint[IMAGES_A_STEP] = self._images

    def _save(self, trainer: Trainer) -> None:
        # By way of the strategy, which gathers the state and calls `save`.
        trainer.save_checkpoint(self._folder / checkpoint_name(trainer.global_step))
        if trainer.is_global_zero:
            for old in checkpoints(self._folder)[:-KEPT]:
                old.unlink()
