"""The processes of a training run agree: on their number, and on a way to talk to each other."""

import os
from datetime import timedelta

import torch

from backbones.errors import RowcastError
from data.processes import environment, started_together

PATIENCE = timedelta(hours=6)
"""How long a process waits for another one. Rank 0 paints while the others wait, and a model that takes ten
minutes an image is slow, not hung."""


def require_processes(devices: int, nodes: int) -> None:
    """Makes sure that those who started the processes and the options agree on their number.

    Raises:
        RowcastError: if they do not; if there shall be several nodes and nobody started the processes.
    """
    found = environment()
    if started_together(found):
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
    if started_together(found) and found.world_size() > 1:
        os.environ["MASTER_ADDR"] = found.main_address
        os.environ["MASTER_PORT"] = str(found.main_port)
        torch.distributed.init_process_group(
            backend, rank=found.global_rank(), world_size=found.world_size(), timeout=PATIENCE
        )
