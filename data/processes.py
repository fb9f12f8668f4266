"""Which of several processes this one is, as torchrun or SLURM say it."""

import os


def rank_and_count() -> tuple[int, int]:
    """(number of this process, how many were started together); (0, 1) for one that was started alone."""
    for rank, count in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")):
        if rank in os.environ:
            return int(os.environ[rank]), max(1, int(os.environ.get(count, "1")))
    return int(os.environ.get("LOCAL_RANK", "0")), 1  # Lightning's own helpers know no more at first


def local_rank() -> int:
    """The number of this process on its machine."""
    return int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "0")))
