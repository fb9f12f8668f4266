"""The runs that several files look at."""

import pytest

from tests.process import run_module


@pytest.fixture(scope="session")
def worlds(tmp_path_factory):
    """A folder with the runs of `tests/train/worlds.py`, made once."""
    folder = tmp_path_factory.mktemp("worlds")
    done = run_module("tests.train.worlds", folder, timeout=400)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return folder
