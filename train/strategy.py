"""Lightning strategies by name, on any device. All of them write and read the form of `train/state.py`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, SingleDeviceStrategy, Strategy
from torch import Tensor

from backbones.errors import RowcastError
from train import state
from train.agreement import agreed, raise_together
from train.cluster import PATIENCE
from train.saving import load, save

NOT_FINITE = (
    "expected a finite gradient, found NaN or infinity; the last checkpoint is kept: lower "
    "trainer.learning_rate or set trainer.precision=32-true, and run again with resume=false"
)
BUCKET = 20_000_000
"""Elements that DeepSpeed gathers or reduces at a time: 80 MB in fp32."""


class Portable(Strategy):
    """A strategy with checkpoints that are one file and know of no strategy: the state's owner is rank 0."""

    sharded = False
    """Whether a process may hold a part of a weight alone."""

    @property
    def lightning_restore_optimizer(self) -> bool:
        return True

    def lightning_module_state_dict(self) -> dict[str, Tensor]:
        """The whole weights, of sharded ones on rank 0 alone; each process must ask."""
        return state.whole_weights(self._module)

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        state.load_weights(self._module, checkpoint["state_dict"])

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        return state.optimiser_state(_plain(optimizer))

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        state.load_optimiser_state(_plain(self.optimizers[0]), checkpoint["optimizer_states"][0])

    def save_checkpoint(
        self, checkpoint: dict[str, Any], filepath: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """Writes the file on rank 0; a failure there is everybody's."""
        with agreed():
            if self.is_global_zero:
                save(checkpoint, Path(filepath))

    def load_checkpoint(
        self, checkpoint_path: str | os.PathLike[str], weights_only: bool | None = None
    ) -> dict[str, Any]:
        return load(Path(checkpoint_path))

    @property
    def _module(self) -> torch.nn.Module:
        assert self.lightning_module is not None
        return self.lightning_module


class OneDevice(Portable, SingleDeviceStrategy):
    """Without other processes."""


class Replicas(Portable, DDPStrategy):
    """A copy of everything in each process; gradients are averaged."""


class Shards(Portable, ModelParallelStrategy):
    """FSDP2: weights, gradients and moments in parts, whole weights while a head computes.

    The module shards itself in `configure_model`.
    """

    sharded = True


def build_strategy(name: str, *, device: torch.device, processes: int, zero_stage: int) -> Portable:
    """The strategy for `trainer.strategy`.

    Args:
        name: `auto` (ddp when there are several processes), `ddp`, `deepspeed` or `fsdp2`.
        device: Of this process.
        processes: How many train, on all nodes.
        zero_stage: What DeepSpeed shards: 1 the moments, 2 the gradients too, 3 the weights too.
    """
    backend = process_backend(device)
    if name == "deepspeed":
        return _deepspeed(device.type, backend, zero_stage)
    if name == "fsdp2":
        return Shards(
            data_parallel_size=processes,
            tensor_parallel_size=1,
            process_group_backend=backend,
            timeout=PATIENCE,
        )
    if name == "ddp" or processes > 1:
        return Replicas(find_unused_parameters=False, process_group_backend=backend, timeout=PATIENCE)
    return OneDevice(device=device)


def process_backend(device: torch.device) -> str:
    """How processes on such devices talk."""
    return "nccl" if device.type == "cuda" else "gloo"


def _plain(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    return optimizer.optimizer if isinstance(optimizer, LightningOptimizer) else optimizer


def _deepspeed(device: str, backend: str, stage: int) -> Portable:
    if device == "cpu":
        # Read by the first import of deepspeed, which would otherwise take whatever accelerator it finds.
        os.environ["DS_ACCELERATOR"] = "cpu"
    from lightning.pytorch.strategies import DeepSpeedStrategy

    class AnyDevice(DeepSpeedStrategy):
        """Lightning's strategy refuses CPUs in three places that DeepSpeed itself does not need."""

        @property
        def root_device(self) -> torch.device:
            root = super().root_device
            return torch.device("cpu", 0) if root.type == "cpu" else root  # DeepSpeed reads the index

        def setup_environment(self) -> None:
            if self.root_device.type != "cpu":
                return super().setup_environment()
            import deepspeed

            # Plain gloo. The shared-memory operator is compiled at first use: minutes, and a lock file
            # that hangs every later run if that is killed.
            deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
            super(DeepSpeedStrategy, self).setup_environment()

        def setup_distributed(self) -> None:
            if self.root_device.type != "cpu":
                return super().setup_distributed()
            self.set_world_ranks()
            self._init_deepspeed_distributed()

    class Zero(Portable, AnyDevice):
        """ZeRO; its state is gathered from and put back into DeepSpeed's partitions."""

        sharded = stage == 3

        @property
        def _state(self) -> state.ZeroState:
            return state.ZeroState(self._module, self.deepspeed_engine.optimizer)

        def lightning_module_state_dict(self) -> dict[str, Tensor]:
            return self._state.weights()

        def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
            self._state.load_weights(checkpoint["state_dict"])

        def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
            return self._state.optimiser()

        def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
            self._state.load_optimiser(checkpoint["optimizer_states"][0])

        def optimizer_step(self, *args: Any, **kwargs: Any) -> Any:
            """A step; DeepSpeed passes over one whose gradient is not finite, and says so to itself alone."""
            done = super().optimizer_step(*args, **kwargs)
            if self.deepspeed_engine.skipped_steps:
                raise_together(RowcastError(NOT_FINITE))
            return done

        def backward(self, closure_loss: Tensor, optimizer: Any, *args: Any, **kwargs: Any) -> Tensor:
            """Lightning has divided by the batches of a step, and DeepSpeed would once more."""
            return super().backward(closure_loss, optimizer, *args, scale_wrt_gas=False, **kwargs)

    return Zero(
        stage=stage,
        allgather_bucket_size=BUCKET,
        reduce_bucket_size=BUCKET,
        process_group_backend=backend,
        timeout=PATIENCE,
    )
