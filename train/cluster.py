"""The processes of a run, whoever started them: torchrun, SLURM's srun, or Lightning on this machine."""

import os
from datetime import timedelta

import torch
from lightning.fabric.plugins.environments import (
    ClusterEnvironment,
    LightningEnvironment,
    SLURMEnvironment,
    TorchElasticEnvironment,
)

from backbones.errors import RowcastError

PATIENCE = timedelta(hours=6)
"""How long a process waits for another one. Rank 0 paints while the others wait, and a model that takes ten
minutes an image is slow, not hung."""


def environment() -> ClusterEnvironment:
    """What tells this process its place in the run.

    Raises:
        RowcastError: if SLURM started tasks without saying how many a node has.
    """
    if TorchElasticEnvironment.detect():
        return TorchElasticEnvironment()
    if not SLURMEnvironment.detect():
        return LightningEnvironment()
    try:
        return SLURMEnvironment(auto_requeue=False)  # the same command resumes, requeued or not
    except RuntimeError:
        raise RowcastError(
            "expected SLURM to know the tasks of a node, found --ntasks: "
            "start with srun --ntasks-per-node=N, N being trainer.devices"
        ) from None


def process_rank() -> int:
    """Which of the processes of a run this is; 0 writes, prints and speaks for all."""
    found = environment()
    return found.global_rank() if _started(found) else found.local_rank()


def local_rank() -> int:
    """Which of the processes of its node this is."""
    return environment().local_rank()


def require_processes(devices: int, nodes: int) -> None:
    """Makes sure that those who started the processes and the options agree on their number.

    Raises:
        RowcastError: if they do not; if there shall be several nodes and nobody started the processes.
    """
    found = environment()
    if _started(found):
        if found.world_size() != devices * nodes:
            raise RowcastError(
                f"expected trainer.devices={devices} times trainer.nodes={nodes} processes, found "
                f"{found.world_size()} that were started: set both to what torchrun or srun was told"
            )
    elif nodes > 1:
        raise RowcastError(
            f"expected processes on trainer.nodes={nodes} started by torchrun or srun, found this one alone: "
            f"on each node run torchrun --nnodes={nodes} --nproc-per-node={devices} --rdzv-backend=c10d "
            "--rdzv-endpoint=HOST:29500 -m train and the same options"
        )


def join(backend: str) -> None:
    """Connects processes that were started together, so that they can agree before training.

    Those that Lightning starts come later and find everything decided.
    """
    found = environment()
    if _started(found) and found.world_size() > 1:
        os.environ["MASTER_ADDR"] = found.main_address
        os.environ["MASTER_PORT"] = str(found.main_port)
        torch.distributed.init_process_group(
            backend, rank=found.global_rank(), world_size=found.world_size(), timeout=PATIENCE
        )


def _started(found: ClusterEnvironment) -> bool:
    """Whether all processes were there from the start; those of Lightning come when training begins."""
    return not isinstance(found, LightningEnvironment)
