"""What a run writes down: pace, memory, acceptance of held-out images and of decoding, by offset."""

import pytest
import safetensors.torch
import torch

from data.reading import Reader
from decoding.warp import Warp
from heads.offsets import pairs
from tests.train.session import job, parts, rollouts
from train.fit import fit
from train.held_out import overlaps
from train.learning import conclude
from train.loggers import read_metrics
from train.module import HeadTraining
from train.optimiser import Schedule

pytestmark = pytest.mark.unit

IMAGES, BATCH, STEPS, PAINTED = 5, 2, 20, 4
LABELS = {"h+1", "h+2", "h+3", "v+1"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run's folder, and the figures of every step."""
    folder, patch = tmp_path_factory.mktemp("figures"), pytest.MonkeyPatch()
    with patch.context() as quiet:
        quiet.setenv("WANDB_MODE", "disabled")
        options = (f"trainer.steps={STEPS}", f"trainer.batch={BATCH}", f"trainer.validation_images={PAINTED}")
        fit(job(folder, *options), parts(), rollouts(folder / "rollouts", IMAGES))
    figures = {}
    for step, name, value in read_metrics(folder / "metrics.csv"):
        figures.setdefault(step, {})[name] = value
    return folder, figures


def lesson_of(things, rollout):
    schedule = Schedule(steps=1, warm_up=0, learning_rate=1.0, weight_decay=0.0)
    reads = Reader(things.backbone, guidance=2.0, siblings=things.bank.reads_siblings, seed=0)
    module = HeadTraining(things.bank, things.backbone, schedule, reads=reads, chunk=100, seed=0)
    return module.lesson([rollout], [reads(rollout, 0)], 0)


def test_images_a_second_are_those_of_the_time_without_validation(run):
    for step in (10, 20):
        values = run[1][step]
        times = {name: value for name, value in values.items() if name.startswith("time/")}
        assert times.keys() == {
            f"time/{phase}" for phase in ("data", "backbone", "heads", "optimiser", "validation", "other")
        }
        working = sum(times.values()) - times["time/validation"]
        assert values["images_per_second"] == pytest.approx(BATCH / working)
        assert min(times["time/backbone"], times["time/heads"], times["time/optimiser"]) > 0
        assert times["time/validation"] > times["time/data"], "several paintings fell into these steps"
        assert values["memory_peak_gb"] > 0.05
        assert values["steps_in_mean"] == 10


def test_validations_know_how_far_the_run_was(run):
    """Five images are two steps an epoch: the loader counts whole epochs and the images after them."""
    assert {step for step, values in run[1].items() if "epochs" in values} == {0, 4, 8, 12, 16, 20}
    assert [run[1][step]["epochs"] for step in (0, 4, 20)] == [0, 2, 10]
    assert [run[1][step]["images_trained_on"] for step in (0, 4, 20)] == [0, 10, 50]


def test_every_offset_is_accepted_and_changed_in_part(run):
    for values in (run[1][step] for step in (0, 20)):
        for part in ("ssd/accepted", "ssd/changed", "held_out/accepted", "seen/accepted"):
            found = {name.removeprefix(f"{part}/") for name in values if name.startswith(f"{part}/")}
            assert {label for label in found if "round" not in label} == LABELS
            assert 0 <= values[part] <= 1
        mean = sum(values[f"held_out/accepted/{label}"] for label in LABELS) / len(LABELS)
        assert values["held_out/accepted"] == pytest.approx(mean)
        single = [values[f"images/held_out/accepted/{i}"] for i in range(PAINTED)]
        assert values["held_out/accepted"] == pytest.approx(sum(single) / PAINTED)
        assert values["ssd/accepted"] + values["ssd/changed"] <= 1 + 1e-9, "an accepted draft does not change"


def test_training_shows_on_images_it_has_seen(run):
    first, last = run[1][0], run[1][20]
    assert last["seen/loss"] < first["seen/loss"]


def test_a_prompt_that_comes_twice_is_painted_twice(run):
    """Four paintings of two prompts: copies of an image would count as evidence."""
    tokens = safetensors.torch.load_file(run[0] / "validation" / "ar.safetensors")["tokens"]
    assert len({tuple(image) for image in tokens.tolist()}) == PAINTED


def test_a_run_can_be_concluded(run):
    learning = conclude(run[0], IMAGES)
    assert [entry.step for entry in learning.validations] == [0, 4, 8, 12, 16, 20]
    assert learning.curve is not None
    assert learning.gap is not None
    assert learning.conclusion.startswith("enough data? accepted 0.")


def test_acceptance_is_the_overlap_of_laws_place_by_place(tmp_path):
    things = parts()
    with torch.no_grad():
        for weight in things.bank.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    lesson, warp = lesson_of(things, rollouts(tmp_path)[0]), Warp(things.sampling)
    with torch.no_grad():
        found = overlaps(things.bank, lesson, warp)
        for offset in things.bank.offsets:
            shares = []
            for source, target in zip(*pairs(lesson.grid, offset), strict=True):
                drafted = things.bank(offset, lesson.states[:, source], lesson.embeddings[:, source])
                q, p = (
                    warp(lesson.head(states[:, None]), 2)[0, 0]
                    for states in (drafted, lesson.states[:, target])
                )
                shares.append(sum(min(a, b) for a, b in zip(p.tolist(), q.tolist(), strict=True)))
            assert found[offset.label].item() == pytest.approx(sum(shares) / len(shares), abs=1e-5)


def test_every_kind_of_heads_says_what_it_drafts(tmp_path):
    for kind, labels in (("mtp", {f"t+{i}" for i in range(1, 6)}), ("eagle", {"t+1"})):
        things = parts(kind)
        lesson = lesson_of(things, rollouts(tmp_path)[0])
        drafts = {draft.label: draft for draft in things.bank.drafts(lesson)}
        assert drafts.keys() == labels
        near = drafts["t+1"]
        assert torch.equal(near.targets, lesson.states[:, 1:])
        assert torch.allclose(near.predicted, lesson.states[:, :-1]), "untrained heads return what they read"
