"""The Lightning module: trains the heads on states that it harvests from the frozen backbone as it goes.

Its only random numbers are a function of seed, step and process, batches come in the loader's order, and
paintings have streams of their own. So a checkpoint holds everything that the rest of a run depends on.
"""

from collections.abc import Iterator, Mapping, Sequence

import torch
from jaxtyping import Float
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from backbones.contract import Backbone
from backbones.errors import RowcastError
from data.loader import ResumableLoader
from data.reading import Reading, Reads, together
from data.shards import Rollout
from heads.contract import DraftHeads, Lesson
from train.optimiser import Schedule, build_optimiser

LOG_EVERY = 10
"""Steps in a logged mean."""


class Batch:
    """Rollouts in a wrapper that Lightning's strategies do not look into: reading them moves the tokens."""

    def __init__(self, rollouts: Sequence[Rollout], epoch: int) -> None:
        self.rollouts, self.epoch = rollouts, epoch


class Batches(ResumableLoader[Rollout]):
    """The loader as Lightning takes it: it saves and restores the position by itself."""

    def __iter__(self) -> Iterator[Batch]:  # pyright: ignore[reportIncompatibleMethodOverride]
        for rollouts in super().__iter__():
            yield Batch(rollouts, self.epoch)


class HeadTraining(LightningModule):
    """Trains `bank`, its only submodule.

    Args:
        bank: The heads.
        backbone: Frozen; held outside the module tree, so that no strategy or checkpoint ever sees it.
        schedule: Steps, learning rate and decay.
        reads: What gives the backbone's states of an image.
        chunk: Pairs in one piece of the loss.
        seed: Of the random numbers that some kinds of heads are trained with.
    """

    bank: DraftHeads
    backbone: Backbone

    def __init__(
        self,
        bank: DraftHeads,
        backbone: Backbone,
        schedule: Schedule,
        *,
        reads: Reads,
        chunk: int,
        seed: int,
    ) -> None:
        super().__init__()
        self.bank = bank
        object.__setattr__(self, "backbone", backbone)
        self._schedule = schedule
        self._reads = reads
        self._chunk = chunk
        self._seed = seed
        self._window: list[Tensor] = []

    def setup(self, stage: str) -> None:
        self.backbone.to(self.device)

    def training_step(self, batch: Batch, batch_idx: int) -> Float[Tensor, ""]:
        # The backbone computes in its own dtype, whatever the precision of the heads.
        with torch.autocast(self.device.type, enabled=False):
            readings = [self._reads(rollout, batch.epoch) for rollout in batch.rollouts]
            lesson = self._lesson(batch.rollouts, readings)
        losses = self.bank.losses(lesson)
        self._require_finite(losses, batch.rollouts)
        self._record(losses)
        return self.bank.objective(losses)

    def _lesson(self, rollouts: Sequence[Rollout], readings: Sequence[Reading]) -> Lesson:
        backbone = self.backbone
        seed = ((self._seed * 1_000_003 + self.global_step) * 1_000_003 + self.global_rank) % 2**63
        states, embeddings, siblings = together(backbone, rollouts, readings)
        return Lesson(
            states=states,
            embeddings=embeddings,
            grid=backbone.grid,
            chunk=self._chunk,
            head=lambda hidden: backbone.head(hidden.to(backbone.dtype)),
            generator=torch.Generator().manual_seed(seed),
            siblings=siblings,
        )

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimiser = build_optimiser(self, self._schedule)
        # A plain function: of anything else LambdaLR writes the attributes into every checkpoint.
        scheduler = LambdaLR(optimiser, lambda step: self._schedule.factor(step))  # noqa: PLW0108
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def _require_finite(self, losses: Mapping[str, Tensor], batch: Sequence[Rollout]) -> None:
        """Before the optimiser step, so that the weights never see it."""
        if torch.stack(list(losses.values())).isfinite().all():
            return
        label, loss = next((key, value) for key, value in losses.items() if not value.isfinite())
        keys = ", ".join(rollout.key for rollout in batch)
        raise RowcastError(
            f"expected a finite loss, found {loss.item()} of head {label} at step {self.global_step} "
            f"on images {keys}; the last checkpoint is kept: lower trainer.learning_rate or set "
            "trainer.precision=32-true, and run again with resume=false"
        )

    def _record(self, losses: Mapping[str, Tensor]) -> None:
        """Logs the mean of the last steps over all ranks; single steps jump about too much to read."""
        self._window.append(torch.stack([loss.detach() for loss in losses.values()]))
        step = self.global_step + 1
        if step % LOG_EVERY and step != self._schedule.steps:
            return
        steps = len(self._window)
        means = self.trainer.strategy.reduce(torch.stack(self._window).mean(0), reduce_op="mean")
        self._window.clear()
        values = dict(zip((f"loss/{label}" for label in losses), means.tolist(), strict=True))
        values["loss"] = self.bank.objective(dict(zip(losses, means, strict=True))).item()
        values["steps_in_mean"] = steps
        values["learning_rate"] = self._schedule.learning_rate * self._schedule.factor(self.global_step)
        for logger in self.loggers:
            logger.log_metrics(values, step)
