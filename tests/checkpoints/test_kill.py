"""SIGKILL at any moment of a save leaves the old bundle or the new one."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report():
    """In memory where there is such a place: unlike a power cut, a kill does not need the disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        command = [sys.executable, "-m", "tests.checkpoints.saver", folder]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_a_kill_at_any_file_operation_leaves_the_old_bundle_or_the_new(report):
    states = report["ours"]
    assert len(states) > 10
    assert set(states) == {"old", "new"}
    assert states == sorted(states, reverse=True)  # old until the commitment, new ever after


def test_a_second_kill_harms_no_more_than_the_first(report):
    """Starts from a bundle that is committed, its weights still under their waiting name."""
    states = report["after a kill"]
    assert len(states) > 10
    assert set(states) == {"old", "new"}
    assert states == sorted(states)


def test_a_kill_at_any_moment_leaves_a_whole_bundle(report):
    assert set(report["clock"]) <= {"old", "new"}


def test_the_check_notices_a_naive_save(report):
    assert any(state.startswith("broken") for state in report["naive"])
