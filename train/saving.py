"""Checkpoints: whole or absent whenever the process is killed, the last two kept, read with every strategy.

A checkpoint is a file, or a folder where DeepSpeed wrote it, named `step-000100.ckpt`. It is written under
another name, synced and renamed.
"""

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch
from lightning.fabric.plugins.io import TorchCheckpointIO
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from backbones.durable import sync
from backbones.errors import RowcastError

KEPT = 2
UNFINISHED = "unfinished.ckpt"
PARTS = {"state_dict", "optimizer_states", "lr_schedulers", "loops"}
"""What resuming takes from a checkpoint that is one file."""
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
    if path.is_dir():
        from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # its progress is nobody's business
            weights = dict(get_fp32_state_dict_from_zero_checkpoint(str(path), tag="checkpoint") or {})
    else:
        weights = _load(path)["state_dict"]
    return {name.removeprefix("bank."): weight.contiguous().clone() for name, weight in weights.items()}


def check_readable(path: Path) -> None:
    """Finds out before training whether a checkpoint can be resumed from.

    Raises:
        RowcastError: if it cannot.
    """
    try:
        for file in path.rglob("*.pt") if path.is_dir() else [path]:
            with ZipFile(file) as archive:  # torch stores checksums and never looks at them
                if altered := archive.testzip():
                    raise ValueError(f"altered bytes in {altered}")
    except Exception as error:  # zipfile raises half a dozen kinds for a damaged file
        raise _damaged(path, str(error)) from error
    if path.is_file():
        _load(path)


def check_fits(path: Path, bank: Mapping[str, Tensor]) -> None:
    """Makes sure that a checkpoint was written by a training of such heads.

    Args:
        path: Of a checkpoint that is readable.
        bank: The weights of the heads by name.

    Raises:
        RowcastError: if it holds something else, or heads of other shapes.
    """
    if path.is_file() and not (isinstance(found := _load(path), dict) and set(found) >= PARTS):
        raise _damaged(path, f"no {' or '.join(sorted(PARTS))} in it")
    wanted = {name: list(weight.shape) for name, weight in bank.items()}
    heads = {name: list(weight.shape) for name, weight in read_heads(path).items()}
    for name in sorted(wanted.keys() | heads.keys()):
        if wanted.get(name) != heads.get(name):
            raise _damaged(path, f"{heads.get(name)} in place of {wanted.get(name)} at {name}")


def _load(path: Path) -> dict[str, Any]:
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


class PlainCheckpointIO(TorchCheckpointIO):
    """Writes where it is told to; Lightning's own goes through the system's folder for temporary files."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        with Path(path).open("wb") as file:
            torch.save(checkpoint, file)


class CheckpointKeeper(Callback):
    """Saves at the first step (a full disk shows before the work is done), every so often, and at the last.

    Args:
        folder: Where checkpoints go.
        every: Steps between them.
    """

    def __init__(self, folder: Path, every: int) -> None:
        self._folder = folder
        self._every = every

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.ckpt_path is None:
            self._save(trainer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step % self._every == 0 or trainer.global_step == trainer.max_steps:
            self._save(trainer)

    def _save(self, trainer: Trainer) -> None:
        target = self._folder / checkpoint_name(trainer.global_step)
        if target.exists():
            return
        self._require_finite(trainer)
        temporary = self._folder / UNFINISHED
        try:
            if trainer.is_global_zero:
                self._folder.mkdir(parents=True, exist_ok=True)
                _remove(temporary)
            trainer.strategy.barrier()
            trainer.save_checkpoint(temporary)
            if trainer.is_global_zero:
                publish(temporary, target)
                for old in checkpoints(self._folder)[:-KEPT]:
                    _remove(old)
        except (OSError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "inline_container" not in str(error):
                raise
            with suppress(OSError):  # half a checkpoint would keep a full disk full
                _remove(temporary)
            reason = getattr(error, "strerror", None) or "no space, or a disk that refuses to write"
            raise RowcastError(
                f"expected to write a checkpoint to {self._folder}, found: {reason}; "
                "earlier ones are kept: free or permit the space and run the same command again"
            ) from error
        trainer.strategy.barrier()

    def _require_finite(self, trainer: Trainer) -> None:
        """A gradient that overflowed shows in the weights first, and must not reach a checkpoint."""
        for name, weight in trainer.lightning_module.named_parameters():
            if not weight.isfinite().all():
                raise RowcastError(
                    f"expected finite weights, found NaN or infinity in {name} at step "
                    f"{trainer.global_step}; the last checkpoint is kept: lower trainer.learning_rate and "
                    "run again with resume=false"
                )


def publish(temporary: Path, target: Path) -> None:
    """Gives a complete checkpoint its name; a power cut leaves it whole or unnamed."""
    files = [path for path in temporary.rglob("*") if path.is_file()] if temporary.is_dir() else [temporary]
    for path in files:
        sync(path)
    temporary.rename(target)
    sync(target.parent)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
