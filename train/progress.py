"""The progress bar: one for the whole run, in steps, with the loss and the time left."""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from tqdm import tqdm

SMOOTHING = 0.9


class Progress(Callback):
    """A bar on rank 0. Lightning's own counts an epoch at a time."""

    def __init__(self) -> None:
        self._bar: tqdm | None = None
        self._loss: float | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            self._bar = tqdm(
                total=trainer.max_steps,
                initial=trainer.global_step,
                desc="training",
                unit="step",
                dynamic_ncols=True,
            )

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._bar is None:
            return
        loss = float(outputs["loss"])
        self._loss = loss if self._loss is None else SMOOTHING * self._loss + (1 - SMOOTHING) * loss
        self._bar.set_postfix_str(f"loss {self._loss:.4f}", refresh=False)
        self._bar.update(trainer.global_step - self._bar.n)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
