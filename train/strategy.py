"""Lightning strategies by name, on any device."""

import os
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from lightning.pytorch.strategies import Strategy

BUCKET = 20_000_000
"""Elements that DeepSpeed gathers or reduces at a time: 80 MB in fp32."""


def process_rank() -> int:
    """Which of the processes of a run this is; known from the start, whoever launched it."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")))


def build_strategy(name: str, *, device: str, devices: int, zero_stage: int) -> "Strategy | str":
    """The strategy for `trainer.strategy`.

    Args:
        name: `auto` (ddp when there are several devices), `ddp` or `deepspeed`.
        device: `cpu` or `cuda`.
        devices: How many processes train.
        zero_stage: What DeepSpeed shards: 1 the optimiser, 2 the gradients too.
    """
    backend = "gloo" if device == "cpu" else "nccl"
    if name == "deepspeed":
        return _deepspeed(device, backend, zero_stage)
    if name == "ddp" or devices > 1:
        from lightning.pytorch.strategies import DDPStrategy

        return DDPStrategy(find_unused_parameters=False, process_group_backend=backend)
    return "auto"


def _deepspeed(device: str, backend: str, stage: int) -> "Strategy":
    if device == "cpu":
        # Read by the first import of deepspeed, which would otherwise take whatever accelerator it finds.
        os.environ["DS_ACCELERATOR"] = "cpu"
    from lightning.pytorch.strategies import DeepSpeedStrategy

    class AnyDeviceDeepSpeed(DeepSpeedStrategy):
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

    return AnyDeviceDeepSpeed(
        stage=stage,
        allgather_bucket_size=BUCKET,
        reduce_bucket_size=BUCKET,
        process_group_backend=backend,
    )
