"""Real processes: every strategy trains alike, resumes bit for bit, and hands its run to any other."""

import json
from collections import Counter
from pathlib import Path

import pytest
import torch

from tests.process import run_module
from tests.train.worlds import STEPS, STRATEGIES
from train.loggers import read_metrics
from train.saving import checkpoints, read_heads

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """A folder with the runs of `tests/train/worlds.py`."""
    folder = tmp_path_factory.mktemp("worlds")
    done = run_module("tests.train.worlds", folder, timeout=400)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return folder


def batches(folder: Path, rank: int) -> list[tuple[int, float, list[str]]]:
    path = folder / f"batches-{rank}.jsonl"
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def both(folder: Path) -> list[tuple[int, float, list[str]]]:
    """Of all processes, however many there were."""
    return [batch for rank in range(3) for batch in batches(folder, rank)]


def curve(folder: Path) -> torch.Tensor:
    """The loss of each step, the mean over its batches and processes; a step done twice counts once."""
    losses = {}
    for step, loss, keys in both(folder):
        losses.setdefault(step, {})[tuple(keys)] = loss
    return torch.tensor([sum(losses[step].values()) / len(losses[step]) for step in sorted(losses)])


def last(folder: Path) -> dict:
    return torch.load(checkpoints(folder / "checkpoints")[-1], weights_only=True)


def assert_near(one: Path, other: Path) -> None:
    heads, others = (read_heads(checkpoints(folder / "checkpoints")[-1]) for folder in (one, other))
    assert heads.keys() == others.keys()
    for name, weight in heads.items():
        torch.testing.assert_close(weight, others[name], atol=1e-5, rtol=0, msg=name)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "ddp"])
def test_curves_and_heads_agree(worlds, name):
    reference = curve(worlds / "ddp")
    assert len(reference) == STEPS
    assert reference[-1] < reference[0] - 0.01  # it learns, so agreement says something
    torch.testing.assert_close(curve(worlds / name), reference, atol=1e-5, rtol=0)
    assert_near(worlds / name, worlds / "ddp")


@pytest.mark.parametrize("name", STRATEGIES)
def test_checkpoints_are_one_form(worlds, name):
    """Every strategy writes the same entries, by name, on one process or two."""
    found, reference = last(worlds / name), last(worlds / "ddp")
    assert found.keys() == reference.keys()
    optimiser, expected = found["optimizer_states"][0], reference["optimizer_states"][0]
    assert optimiser["param_groups"] == expected["param_groups"]
    assert set(optimiser["state"]) == set(found["state_dict"])
    for name, state in expected["state"].items():
        own = optimiser["state"][name]
        assert own["step"] == state["step"] == STEPS
        assert own["exp_avg"].shape == found["state_dict"][name].shape
        torch.testing.assert_close(own["exp_avg"], state["exp_avg"], atol=1e-5, rtol=0)
        torch.testing.assert_close(own["exp_avg_sq"], state["exp_avg_sq"], atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", STRATEGIES)
def test_paintings_are_of_the_weights_of_their_step(worlds, name):
    assert json.loads((worlds / name / "painted.json").read_text())
    steps = {step for step, figure, _ in read_metrics(worlds / name / "metrics.csv") if "forwards" in figure}
    assert steps == {0, STEPS}


@pytest.mark.parametrize("name", ["one", "ddp", "zero2"])
def test_killed_runs_end_bit_for_bit_as_uninterrupted_ones(worlds, name):
    whole, resumed = last(worlds / name), last(worlds / f"{name}-killed")
    assert whole["global_step"] == resumed["global_step"] == STEPS
    for key, weight in whole["state_dict"].items():
        assert weight.equal(resumed["state_dict"][key]), key
    for key, state in whole["optimizer_states"][0]["state"].items():
        assert all(
            value.equal(resumed["optimizer_states"][0]["state"][key][part]) for part, value in state.items()
        )
    assert whole["lr_schedulers"] == resumed["lr_schedulers"]
    assert len(batches(worlds / f"{name}-killed", 0)) > 2 * STEPS  # some batches were done again


def test_a_checkpoint_without_its_name_does_not_count(worlds):
    """Killed in the first one, and between the last one's bytes and its name."""
    whole, resumed = (last(worlds / name)["state_dict"] for name in ("one", "one-unsaved"))
    assert all(weight.equal(resumed[key]) for key, weight in whole.items())


@pytest.mark.parametrize(("moved", "reference"), [("moved", "ddp"), ("three-moved", "three")])
def test_a_run_goes_on_under_any_strategy(worlds, moved, reference):
    """Two steps each of zero3, fsdp2, zero1 and zero3; on three processes without zero1."""
    torch.testing.assert_close(curve(worlds / moved), curve(worlds / reference), atol=1e-5, rtol=0)
    assert_near(worlds / moved, worlds / reference)


def test_two_processes_then_one_then_two(worlds):
    """The one takes twice as many batches a step, so that nothing but the order of sums changes."""
    for step in range(STEPS):
        images = [
            sorted(
                key
                for rank in (0, 1)
                for at, _, keys in batches(worlds / name, rank)
                for key in keys
                if at == step
            )
            for name in ("two", "two-one-two")
        ]
        assert images[0] == images[1]
        assert len(set(images[0])) == 4
    torch.testing.assert_close(curve(worlds / "two-one-two"), curve(worlds / "two"), atol=1e-5, rtol=0)
    assert_near(worlds / "two-one-two", worlds / "two")


def test_each_remaining_image_is_seen_once_when_steps_change_size(worlds):
    """Steps of 4, 4, 1, 1 and 2 images; all of one epoch."""
    trained = both(worlds / "other-steps")
    sizes = Counter(step for step, _, keys in trained for _ in keys)
    assert sizes == {0: 4, 1: 4, 2: 1, 3: 1, 4: 2}
    assert len({key for _, _, keys in trained for key in keys}) == 12
    assert last(worlds / "other-steps")["images_a_step"] == 2


def test_a_loss_that_is_not_finite_in_one_process_stops_all(worlds):
    here, elsewhere = ((worlds / "nan" / f"error-{rank}.txt").read_text() for rank in (0, 1))
    keys = batches(worlds / "nan", 1)[-1]
    assert here.startswith("here: expected a finite loss, found nan of head h+1 at step 3 on images ")
    assert elsewhere == here.replace("here", "elsewhere", 1)
    assert keys[0] == 2  # the spoilt batch itself is not among those that were trained on
    assert checkpoints(worlds / "nan" / "checkpoints")[-1].name == "step-000002.ckpt"


def test_a_full_disk_stops_all_and_keeps_the_last_checkpoint(worlds):
    here, elsewhere = ((worlds / "full" / f"error-{rank}.txt").read_text() for rank in (0, 1))
    assert here.startswith("here: expected to write a checkpoint to ")
    assert elsewhere.startswith("elsewhere: expected to write a checkpoint to ")
    names = sorted(path.name for path in (worlds / "full" / "checkpoints").iterdir())
    assert names == ["step-000000.ckpt", "step-000002.ckpt"]
    read_heads(worlds / "full" / "checkpoints" / names[-1])


def test_mixed_precision_is_the_same_and_weights_stay_whole(worlds):
    for name in ("ddp", "zero2"):
        weights = last(worlds / f"{name}-bf16")["state_dict"]
        assert {weight.dtype for weight in weights.values()} == {torch.float32}
    torch.testing.assert_close(curve(worlds / "zero2-bf16"), curve(worlds / "ddp-bf16"), atol=1e-3, rtol=0)
    assert not torch.equal(curve(worlds / "ddp-bf16"), curve(worlds / "ddp")[:4])


def test_the_comparison_can_fail(worlds):
    """A run that forgets the loader's position ends with other weights."""
    whole, forgetful = (last(worlds / name)["state_dict"] for name in ("one", "one-forgetful"))
    assert not all(weight.equal(forgetful[key]) for key, weight in whole.items())


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
