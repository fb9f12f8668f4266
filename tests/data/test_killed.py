"""Kill -9 of real processes: whatever the moment, the same call again gives the same bytes."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backbones.pocket.architecture import text_tokenizer, untrained
from data.rollouts import RolloutSet
from tests.data.killed import make
from tests.data.sets import entries, files

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", *map(str, words)]


def test_killed_at_every_durable_step(tmp_path):
    """A file written, renamed or entered: the process dies just before each of these is safe on disk."""
    make(tmp_path / "whole")
    subprocess.run(command("tests.data.killed", tmp_path / "points", "--points"), cwd=ROOT, check=True)
    points = sorted(int(path.name) for path in (tmp_path / "points").iterdir())
    assert len(points) == 11, "contract: 2 fsyncs, two shards: 4 each, and one run that lived"
    for point in points:
        folder = tmp_path / "points" / str(point)
        RolloutSet(folder).verify()
        assert files(folder) == files(tmp_path / "whole")


def test_killed_from_outside(tmp_path):
    folder = tmp_path / "set"
    with subprocess.Popen(command("tests.data.killed", folder, 600), cwd=ROOT) as process:
        while len(entries(folder)) < 2 and process.poll() is None:
            time.sleep(0.02)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    made = entries(folder)[-1].last
    assert 6 <= made < 600
    make(folder, images=made + 2)
    make(tmp_path / "whole", images=made + 2)
    RolloutSet(folder).verify()
    assert files(folder) == files(tmp_path / "whole")


def test_the_command_line_goes_on_after_ctrl_c(tmp_path):
    """Ctrl-C gives status 130 and no traceback; the same command makes the rest, under torchrun too."""
    model, folder = tmp_path / "model", tmp_path / "set"
    untrained(0).save_pretrained(model)
    text_tokenizer().save_pretrained(model)
    options = (f"folder={folder}", "batch=1", "shard_images=1", "images=3")
    words = [f"model.path={model}", *(f"rollouts.{option}" for option in options)]
    with subprocess.Popen(
        command("data", *words), cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        while not entries(folder) and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    launcher = ("torch.distributed.run", "--nproc_per_node=2", "-m")
    done = subprocess.run(
        command(*launcher, "data", *words), cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.count(f"3 rollouts of pocket, every shard verified: {folder}") == 1
    assert "3/3" in done.stderr
