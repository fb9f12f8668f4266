"""Where figures go: always `metrics.csv` in the run's folder, and wandb unless it is disabled."""

import csv
import io
import netrc
import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger, WandbLogger
from lightning.pytorch.utilities import rank_zero_only

from backbones.durable import write_durably
from backbones.errors import RowcastError

FILE = "metrics.csv"
HEADER = ("step", "name", "value")
WANDB_HOST = "api.wandb.ai"


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
    """The complete lines of a metrics file, none if it is missing."""
    if not path.exists():
        return []
    content = path.read_bytes()
    lines = content[: content.rfind(b"\n") + 1].decode().splitlines()[1:]
    return [(int(step), name, float(value)) for step, name, value in csv.reader(lines)]


def last_metrics(path: Path) -> dict[str, float]:
    """The last value of every figure in a metrics file."""
    return {name: value for _, name, value in read_metrics(path)}


def wandb_logger(mode: str, project: str, folder: Path, options: Mapping[str, Any]) -> WandbLogger | None:
    """The wandb logger of a run, or none if it is disabled. Never prompts, and is offline unless asked.

    Raises:
        RowcastError: if it shall be online and there is no key.
    """
    if mode == "disabled" or os.environ.get("WANDB_MODE") == "disabled":
        return None
    if mode == "online" and not _has_wandb_key():
        raise RowcastError(
            f"expected a wandb key in WANDB_API_KEY or for {WANDB_HOST} in ~/.netrc, found none: "
            "run `wandb login`, or set wandb.mode=offline"
        )
    import wandb

    # Started here, since Lightning passes an argument that wandb warns about.
    session = wandb.init(
        project=project,
        name=folder.name,
        dir=str(folder.resolve()),
        mode="online" if mode == "online" else "offline",
        config=dict(options),
        settings=wandb.Settings(silent=True),
    )
    return WandbLogger(experiment=session)


def _has_wandb_key() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return netrc.netrc().authenticators(WANDB_HOST) is not None
    except (OSError, netrc.NetrcParseError):
        return False
