"""The processes of a job, whoever started them: torchrun, SLURM's srun, or Lightning on this machine."""

from lightning.fabric.plugins.environments import (
    ClusterEnvironment,
    LightningEnvironment,
    SLURMEnvironment,
    TorchElasticEnvironment,
)

from backbones.errors import RowcastError


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
            "start with srun --ntasks-per-node=N, N being the devices of a node"
        ) from None


def started_together(found: ClusterEnvironment) -> bool:
    """Whether all processes were there from the start; those of Lightning come when training begins."""
    return not isinstance(found, LightningEnvironment)


def rank_and_count() -> tuple[int, int]:
    """(number of this process, how many were started together); (0, 1) for one that was started alone."""
    found = environment()
    if started_together(found):
        return found.global_rank(), found.world_size()
    return found.local_rank(), 1  # Lightning's own helpers know no more at first


def process_rank() -> int:
    """Which of the processes of a run this is; 0 writes, prints and speaks for all."""
    return rank_and_count()[0]


def local_rank() -> int:
    """Which of the processes of its node this is."""
    return environment().local_rank()
