"""Who started the processes, and whether they are as many as the options say."""

import pytest
from lightning.fabric.plugins.environments import SLURMEnvironment, TorchElasticEnvironment

from backbones.errors import RowcastError
from data.processes import environment, local_rank, process_rank
from train.cluster import require_processes

pytestmark = pytest.mark.unit

TORCHRUN = {"TORCHELASTIC_RUN_ID": "r", "RANK": "5", "LOCAL_RANK": "1", "GROUP_RANK": "2", "WORLD_SIZE": "8"}
SLURM = {
    "SLURM_NTASKS": "8",
    "SLURM_NTASKS_PER_NODE": "4",
    "SLURM_PROCID": "6",
    "SLURM_LOCALID": "2",
    "SLURM_NODEID": "1",
    "SLURM_JOB_NAME": "heads",
}
LIGHTNING = {"LOCAL_RANK": "3", "NODE_RANK": "0", "WORLD_SIZE": "4"}
OURS = {"MASTER_ADDR", "MASTER_PORT", *TORCHRUN, *SLURM, *LIGHTNING}


@pytest.fixture
def started_by(monkeypatch):
    def start(found):
        for name in OURS:
            monkeypatch.delenv(name, raising=False)
        for name, value in found.items():
            monkeypatch.setenv(name, value)

    return start


@pytest.mark.parametrize(
    ("found", "rank", "local"),
    [
        ({}, 0, 0),
        (TORCHRUN, 5, 1),
        (SLURM, 6, 2),
        (TORCHRUN | SLURM, 5, 1),  # torchrun inside a SLURM job
        (LIGHTNING, 3, 3),
    ],
)
def test_ranks(started_by, found, rank, local):
    started_by(found)
    assert (process_rank(), local_rank()) == (rank, local)


def test_an_interactive_slurm_shell_starts_no_processes(started_by):
    started_by(SLURM | {"SLURM_JOB_NAME": "bash"})
    assert process_rank() == 0
    assert not isinstance(environment(), SLURMEnvironment)


def test_slurm_never_resubmits_by_itself(started_by):
    started_by(SLURM)
    found = environment()
    assert isinstance(found, SLURMEnvironment)
    assert not found.auto_requeue


@pytest.mark.parametrize("found", [TORCHRUN, SLURM])
def test_as_many_processes_as_the_options_say(started_by, found):
    started_by(found)
    require_processes(4, 2)
    with pytest.raises(RowcastError, match=r"expected trainer.devices=8 times .*nodes=2 processes, found 8"):
        require_processes(8, 2)


def test_several_nodes_need_somebody_to_start_them(started_by):
    started_by({})
    require_processes(8, 1)
    with pytest.raises(RowcastError, match="run torchrun --nnodes=2 --nproc-per-node=8"):
        require_processes(8, 2)


def test_processes_of_lightning_are_taken_as_they_come(started_by):
    started_by(LIGHTNING)
    require_processes(4, 1)


def test_slurm_must_say_how_many_tasks_a_node_has(started_by):
    started_by({name: value for name, value in SLURM.items() if name != "SLURM_NTASKS_PER_NODE"})
    with pytest.raises(RowcastError, match="srun --ntasks-per-node"):
        require_processes(4, 2)


def test_torchrun_comes_first(started_by):
    started_by(TORCHRUN | SLURM)
    assert isinstance(environment(), TorchElasticEnvironment)
