"""Where figures go: `metrics.csv` in the run's folder, wandb unless disabled, TensorBoard if installed."""

import csv
import io
import netrc
import os
from argparse import Namespace
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from lightning.pytorch.loggers import Logger, TensorBoardLogger, WandbLogger
from lightning.pytorch.utilities import rank_zero_only
from PIL import Image

from backbones.durable import write_durably
from backbones.errors import RowcastError

FILE = "metrics.csv"
HEADER = ("step", "name", "value")
TENSORBOARD = "tensorboard"
"""Folder of its files."""
WANDB_HOST = "api.wandb.ai"
WANDB_SECONDS = 30
"""How long to wait for wandb to answer at the start."""


class MetricsFile(Logger):
    """One line a figure (`step,name,value`), appended as it comes; a resumed run goes on in the same file.

    Args:
        folder: The run's folder.
        step: Of the checkpoint that the run goes on from, none for a new run; what was logged after it is
            dropped, since it will be logged again.
    """

    def __init__(self, folder: Path, step: int | None) -> None:
        super().__init__()
        self._path = folder / FILE
        self._begin(step)

    @property
    def name(self) -> str:
        return "metrics"

    @property
    def version(self) -> str:
        return ""

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """The options are in `config.yaml`."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        with self._path.open("a", newline="") as file:
            csv.writer(file).writerows((step, name, value) for name, value in metrics.items())

    @rank_zero_only
    def _begin(self, step: int | None) -> None:
        kept = [] if step is None else [row for row in read_metrics(self._path) if row[0] <= step]
        text = io.StringIO(newline="")
        csv.writer(text).writerows([HEADER, *kept])
        write_durably(self._path, text.getvalue().encode())


def read_metrics(path: Path) -> list[tuple[int, str, float]]:
    """The complete lines of a metrics file, none if it is missing.

    Raises:
        RowcastError: if a line is not `step,name,value`.
    """
    if not path.exists():
        return []
    content = path.read_bytes()
    try:
        lines = content[: content.rfind(b"\n") + 1].decode().splitlines()[1:]
        return [(int(step), name, float(value)) for step, name, value in csv.reader(lines)]
    except (ValueError, csv.Error) as error:
        raise RowcastError(
            f"expected lines of step,name,value in {path}, found: {error}; "
            "correct or remove the file and run the same command again"
        ) from error


def last_metrics(path: Path) -> dict[str, float]:
    """The last value of every figure in a metrics file."""
    return {name: value for _, name, value in read_metrics(path)}


def wandb_logger(mode: str, project: str, folder: Path, options: Mapping[str, Any]) -> WandbLogger | None:
    """The wandb logger of a run, or none if it is disabled. Never prompts, and is offline unless asked.

    Raises:
        RowcastError: if it shall be online and there is no key, or wandb cannot be reached.
    """
    require_wandb_key(mode)
    if _disabled(mode):
        return None
    import wandb

    try:
        # Started here, since Lightning passes an argument that wandb warns about.
        session = wandb.init(
            project=project,
            name=folder.name,
            dir=str(folder.resolve()),
            mode="online" if mode == "online" else "offline",
            config=dict(options),
            settings=wandb.Settings(silent=True, init_timeout=WANDB_SECONDS),
        )
    except (wandb.Error, ValueError) as error:  # the latter for settings in the environment
        raise RowcastError(
            f"expected wandb to start with wandb.mode={mode}, found: {error}; check the network, the key and "
            "wandb.project, or set wandb.mode=offline"
        ) from error
    return WandbLogger(experiment=session)


def tensorboard_logger(wanted: str, folder: Path, step: int | None) -> TensorBoardLogger | None:
    """The TensorBoard logger of a run, in its folder, or none.

    Args:
        wanted: `auto` (if the package is installed), `true` or `false`.
        folder: the run's folder.
        step: of the checkpoint that the run goes on from, none for a new run; what came after it is hidden.

    Raises:
        RowcastError: if it is wanted and not installed.
    """
    require_tensorboard(wanted)
    if wanted == "false" or find_spec(TENSORBOARD) is None:
        return None
    purge: dict[str, Any] = {} if step is None else {"purge_step": step + 1}
    return TensorBoardLogger(folder, name=TENSORBOARD, version="", **purge)


def require_tensorboard(wanted: str) -> None:
    """Finds out before any work whether TensorBoard is there.

    Raises:
        RowcastError: if it is wanted and not installed.
    """
    if wanted == "true" and find_spec(TENSORBOARD) is None:
        raise RowcastError(
            "expected the package tensorboard with tensorboard=true, found none: "
            "run `pip install tensorboard`, or set tensorboard=auto"
        )


def log_picture(logger: Logger, name: str, path: Path, step: int) -> None:
    """Hands a picture to a logger that shows pictures."""
    if isinstance(logger, WandbLogger):
        logger.log_image(name, [str(path)], step=step)
    elif isinstance(logger, TensorBoardLogger):
        logger.experiment.add_image(name, np.asarray(Image.open(path)), step, dataformats="HWC")


def require_wandb_key(mode: str) -> None:
    """Finds out before any work whether wandb can be online.

    Raises:
        RowcastError: if it shall be and there is no key.
    """
    if mode == "online" and not _disabled(mode) and not _has_wandb_key():
        raise RowcastError(
            f"expected a wandb key in WANDB_API_KEY or for {WANDB_HOST} in ~/.netrc, found none: "
            "run `wandb login`, or set wandb.mode=offline"
        )


def _disabled(mode: str) -> bool:
    return "disabled" in (mode, os.environ.get("WANDB_MODE"))


def _has_wandb_key() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return netrc.netrc().authenticators(WANDB_HOST) is not None
    except (OSError, netrc.NetrcParseError):
        return False
