"""The figures of training, every few steps: losses, images a second, where the time goes, memory.

Ahead of every other callback: what is logged of a step is on disk before the step's checkpoint is, so that a
run that resumes from there misses no line.
"""

import resource
import sys
from dataclasses import dataclass
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from train.clock import PHASES
from train.module import Batch, HeadTraining

LOG_EVERY = 10
"""Steps in a logged mean; single steps jump about too much to read."""
WORK = ("data", "backbone", "heads", "other")
"""What can be the bottleneck; the optimiser's step is part of what the heads cost."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How fast some steps were, by the clock of rank 0."""

    images_per_second: float
    """Over all ranks; validation left out."""
    seconds: dict[str, float]
    """A step, by phase."""

    def shares(self) -> dict[str, float]:
        """Parts of a step, validation left out, that add up to 1; the optimiser counts as heads."""
        parts = {phase: self.seconds[phase] for phase in WORK}
        parts["heads"] += self.seconds["optimiser"]
        total = sum(parts.values()) or 1.0
        return {phase: part / total for phase, part in parts.items()}

    def bottleneck(self) -> str:
        """Which of `WORK` takes longest."""
        shares = self.shares()
        return max(shares, key=lambda phase: shares[phase])


class Meter(Callback):
    """Logs the means of the last `LOG_EVERY` steps.

    Attributes:
        loss: the last mean of the objective, none before there is one.
        pace: of the same steps.
    """

    def __init__(self) -> None:
        self.loss: float | None = None
        self.pace: Pace | None = None
        self._images, self._since, self._logged = 0, 0, 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._since = self._logged = trainer.global_step
        if trainer.strategy.root_device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(trainer.strategy.root_device)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        assert isinstance(pl_module, HeadTraining)
        self._images += len(batch.rollouts)
        step = trainer.global_step
        if step == self._logged or (step % LOG_EVERY and step != trainer.max_steps):
            return  # with accumulated gradients, several batches end at one step
        self._logged = step
        values = self._losses(trainer, pl_module, step) | self._time(trainer, pl_module, step)
        for logger in trainer.loggers:
            logger.log_metrics(values, step)

    def _losses(self, trainer: Trainer, module: HeadTraining, step: int) -> dict[str, float]:
        """Means over the steps and all ranks."""
        labels, losses = module.take_losses()
        means = trainer.strategy.reduce(losses.mean(0), reduce_op="mean")
        self.loss = module.bank.objective(dict(zip(labels, means, strict=True))).item()
        values = dict(zip((f"loss/{label}" for label in labels), means.tolist(), strict=True))
        rate = module.schedule.learning_rate * module.schedule.factor(step - 1)
        return {**values, "loss": self.loss, "steps_in_mean": step - self._since, "learning_rate": rate}

    def _time(self, trainer: Trainer, module: HeadTraining, step: int) -> dict[str, float]:
        module.clock.lap("other")
        seconds, steps = module.clock.read(), step - self._since
        working = sum(seconds.values()) - seconds["validation"]
        self.pace = Pace(
            images_per_second=self._images * trainer.world_size / working,
            seconds={phase: seconds[phase] / steps for phase in PHASES},
        )
        self._images, self._since = 0, step
        times = {f"time/{phase}": value for phase, value in self.pace.seconds.items()}
        peak = memory_peak(trainer.strategy.root_device) / 1e9
        return {"images_per_second": self.pace.images_per_second, **times, "memory_peak_gb": peak}


def memory_peak(device: torch.device) -> int:
    """Most bytes held at a time: of a GPU what torch allocated, else what the process had in memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
