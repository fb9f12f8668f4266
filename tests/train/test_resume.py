"""Killed at any moment, a run ends with the weights of one that was not; on two processes too it trains."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.train.session import parts
from train.loggers import read_metrics
from train.saving import checkpoints, read_heads

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def session(*words, timeout=280):
    # One thread each: sums are then added up in one order, and processes do not fight for cores.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.train.session", *map(str, words)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def last(folder):
    return torch.load(checkpoints(folder / "checkpoints")[-1], weights_only=True)


def leaves(value):
    if isinstance(value, dict):
        return [leaf for key in sorted(value, key=str) for leaf in leaves(value[key])]
    if isinstance(value, list | tuple):
        return [leaf for entry in value for leaf in leaves(entry)]
    return [value]


def same(left, right):
    pairs = zip(leaves(left), leaves(right), strict=True)
    return all(a.equal(b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills")
    session("kills", folder)
    return folder


@pytest.mark.parametrize("part", ["state_dict", "optimizer_states", "lr_schedulers"])
def test_killed_runs_end_bit_for_bit_as_uninterrupted_ones(killed, part):
    whole, resumed = last(killed / "whole"), last(killed / "killed")
    assert whole["global_step"] == resumed["global_step"] == 10
    assert len(leaves(whole[part])) > 3
    assert same(whole[part], resumed[part])


def test_the_comparison_can_fail(killed):
    """A run that forgets the loader's position ends with other weights."""
    assert not same(last(killed / "whole")["state_dict"], last(killed / "forgetful")["state_dict"])


def test_loader_and_images_end_alike(killed):
    loops = [last(killed / name)["loops"]["fit_loop"]["state_dict"] for name in ("whole", "killed")]
    assert loops[0] == loops[1] == {"combined_loader": [{"epoch": 3, "seen": 1}]}
    for name in ("step-000000.png", "step-000004.png", "step-000010.png", "ar.safetensors"):
        paintings = [(killed / run / "validation" / name).read_bytes() for run in ("whole", "killed")]
        assert paintings[0] == paintings[1]


def test_only_the_last_two_checkpoints_stay(killed):
    names = [path.name for path in (killed / "killed" / "checkpoints").iterdir()]
    assert sorted(names) == ["step-000008.ckpt", "step-000010.ckpt"]


def test_checkpoints_hold_heads_alone(killed):
    names = last(killed / "whole")["state_dict"]
    assert all(name.startswith(("bank.predictors.", "bank.correction.")) for name in names)


def test_optimiser_state_is_saved_by_name(killed):
    groups = last(killed / "whole")["optimizer_states"][0]["param_groups"]
    assert {name for group in groups for name in group["param_names"]} == set(
        last(killed / "whole")["state_dict"]
    )
    assert [group["weight_decay"] for group in groups] == [0.01, 0.0]


def test_metrics_have_every_painting_once(killed):
    rows = [read_metrics(killed / name / "metrics.csv") for name in ("whole", "killed")]
    painted = [[row for row in run if row[1].startswith("ssd/")] for run in rows]
    assert painted[0] == painted[1]
    assert {step for step, _, _ in painted[0]} == {0, 4, 8, 10}


def test_two_processes_train(tmp_path):
    session("run", tmp_path / "run", "trainer.devices=2", "trainer.steps=3")
    check_heads(tmp_path / "run" / "checkpoints" / "step-000003.ckpt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rollouts-4", "run"]


def test_deepspeed_trains_on_two_processes_and_resumes(tmp_path):
    words = ("run", tmp_path / "run", "trainer.devices=2", "trainer.strategy=deepspeed")
    session(*words, "trainer.steps=3")
    first = check_heads(tmp_path / "run" / "checkpoints" / "step-000003.ckpt")
    assert "resuming at step 3" in session(*words, "trainer.steps=5").stdout
    second = check_heads(tmp_path / "run" / "checkpoints" / "step-000005.ckpt")
    assert any(not weight.equal(first[name]) for name, weight in second.items())


def check_heads(path):
    """Whole fp32 weights, whatever the strategy."""
    heads = read_heads(path)
    bank = parts().bank
    bank.load_state_dict(heads)
    assert all(weight.dtype == torch.float32 and weight.isfinite().all() for weight in heads.values())
    return heads
