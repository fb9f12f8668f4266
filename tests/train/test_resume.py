"""Killed at any moment, a run on one process ends with the weights of one that was not."""

import pytest
import torch

from train.loggers import read_metrics
from train.saving import checkpoints

pytestmark = pytest.mark.integration


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


@pytest.mark.parametrize("part", ["state_dict", "optimizer_states", "lr_schedulers"])
def test_killed_runs_end_bit_for_bit_as_uninterrupted_ones(worlds, part):
    whole, resumed = last(worlds / "one"), last(worlds / "one-killed")
    assert whole["global_step"] == resumed["global_step"] == 8
    assert len(leaves(whole[part])) > 3
    assert same(whole[part], resumed[part])


def test_the_comparison_can_fail(worlds):
    """A run that forgets the loader's position ends with other weights."""
    assert not same(last(worlds / "one")["state_dict"], last(worlds / "one-forgetful")["state_dict"])


def test_loader_and_images_end_alike(worlds):
    loops = [last(worlds / name)["loops"]["fit_loop"]["state_dict"] for name in ("one", "one-killed")]
    assert loops[0] == loops[1] == {"combined_loader": [{"epoch": 1, "seen": 4}]}
    for name in ("step-000000.png", "step-000004.png", "step-000008.png", "ar.safetensors"):
        paintings = [(worlds / run / "validation" / name).read_bytes() for run in ("one", "one-killed")]
        assert paintings[0] == paintings[1]


def test_only_the_last_two_checkpoints_stay(worlds):
    names = [path.name for path in (worlds / "one-killed" / "checkpoints").iterdir()]
    assert sorted(names) == ["step-000006.ckpt", "step-000008.ckpt"]


def test_checkpoints_hold_heads_alone(worlds):
    names = last(worlds / "one")["state_dict"]
    assert all(name.startswith(("bank.predictors.", "bank.correction.")) for name in names)


def test_optimiser_state_is_saved_by_name(worlds):
    optimiser, names = last(worlds / "one")["optimizer_states"][0], last(worlds / "one")["state_dict"].keys()
    assert {name for group in optimiser["param_groups"] for name in group["param_names"]} == names
    assert optimiser["state"].keys() == names


def test_metrics_have_every_painting_once(worlds):
    rows = [read_metrics(worlds / name / "metrics.csv") for name in ("one", "one-killed")]
    painted = [[row for row in run if row[1].startswith("ssd/")] for run in rows]
    assert painted[0] == painted[1]
    assert {step for step, _, _ in painted[0]} == {0, 4, 8}
