"""The Lightning module: trains the heads on states that it harvests from the frozen backbone as it goes.

Its only random numbers are a function of seed, batch and process, batches come in the loader's order, and
paintings have streams of their own. So a checkpoint holds everything that the rest of a run depends on.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
from train.agreement import anywhere, raise_together
from train.clock import StepClock
from train.optimiser import Schedule, build_optimiser
from train.steps import recount


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
        mixed: Whether the heads compute in bf16; their weights are fp32 either way.
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
        mixed: bool = False,
    ) -> None:
        super().__init__()
        self.bank = bank
        object.__setattr__(self, "backbone", backbone)
        self.schedule = schedule
        self._reads = reads
        self._chunk = chunk
        self._seed = seed
        self._mixed = mixed
        self.clock = StepClock()
        self._losses: list[dict[str, Tensor]] = []

    def setup(self, stage: str) -> None:
        self.backbone.to(self.device)

    def configure_model(self) -> None:
        """Shards the heads for FSDP2, the only strategy that has a mesh."""
        if self.device_mesh is None:
            return
        from torch.distributed.fsdp import fully_shard

        for part in self.bank.parts().values():
            fully_shard(part, mesh=self.device_mesh["data_parallel"])

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        recount(checkpoint, self.trainer.accumulate_grad_batches)

    def on_train_start(self) -> None:
        self.clock.start(self.device)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        self.clock.lap("data")

    def training_step(self, batch: Batch, batch_idx: int) -> Float[Tensor, ""]:
        self.clock.lap("other")
        seed = ((self._seed * 1_000_003 + batch_idx) * 1_000_003 + self.global_rank) % 2**63
        # The backbone computes in its own dtype, whatever the precision of the heads.
        with torch.autocast(self.device.type, enabled=False):
            readings = [self._reads(rollout, batch.epoch) for rollout in batch.rollouts]
            lesson = self.lesson(batch.rollouts, readings, seed)
        self.clock.lap("backbone")
        losses = self.losses(lesson)
        self._require_finite(losses, batch.rollouts)
        self._losses.append({label: loss.detach() for label, loss in losses.items()})
        return self.bank.objective(losses)

    def on_after_backward(self) -> None:
        self.clock.lap("heads")

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        super().optimizer_step(*args, **kwargs)  # the whole step: the closure holds forward and backward
        self.clock.lap("optimiser")

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        self.clock.lap("other")

    def take_losses(self) -> tuple[tuple[str, ...], Float[Tensor, "S L"]]:
        """The losses of every batch since the last call: their labels, and a row a batch."""
        taken, self._losses = self._losses, []
        return tuple(taken[0]), torch.stack([torch.stack(list(losses.values())) for losses in taken])

    def losses(self, lesson: Lesson) -> dict[str, Tensor]:
        """The heads' losses by label, computed in the precision of training."""
        # Not Lightning's or DeepSpeed's mixed precision, which differ: every strategy trains alike.
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._mixed):
            return self.bank.losses(lesson)

    def lesson(self, rollouts: Sequence[Rollout], readings: Sequence[Reading], seed: int) -> Lesson:
        """What the heads learn of some images that were read; `seed` fixes its random numbers."""
        backbone = self.backbone
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
        optimiser = build_optimiser(self, self.schedule)
        # A plain function: of anything else LambdaLR writes the attributes into every checkpoint.
        scheduler = LambdaLR(optimiser, lambda step: self.schedule.factor(step))  # noqa: PLW0108
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def _require_finite(self, losses: Mapping[str, Tensor], batch: Sequence[Rollout]) -> None:
        """Before the optimiser step, so that the weights never see it. One process stops all of them."""
        if not anywhere(~torch.stack(list(losses.values())).isfinite().all()):
            return
        error = None
        for label, loss in losses.items():
            if error is None and not loss.isfinite():
                keys = ", ".join(rollout.key for rollout in batch)
                error = RowcastError(
                    f"expected a finite loss, found {loss.item()} of head {label} at step {self.global_step} "
                    f"on images {keys}; the last checkpoint is kept: lower trainer.learning_rate or set "
                    "trainer.precision=32-true, and run again with resume=false"
                )
        raise_together(error)
