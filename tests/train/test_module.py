"""The training step, the schedule and the paintings, on the tiny backbone."""

import resource

import pytest
import torch
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, SingleDeviceStrategy
from PIL import Image

from backbones.errors import RowcastError
from data.reading import Reader
from heads.bank import HeadBank
from heads.options import HEADS
from tests.backbones.tiny import tiny_backbone
from tests.train.session import PROMPTS, job, parts, rollouts
from train import saving
from train.fit import fit
from train.job import PAINTERS
from train.loggers import read_metrics
from train.module import Batch, HeadTraining
from train.optimiser import Schedule, build_optimiser
from train.strategy import build_strategy
from train.validation import image_strip

pytestmark = pytest.mark.unit

SCHEDULE = Schedule(steps=10, warm_up=4, learning_rate=1e-3, weight_decay=0.1)


def test_schedule_warms_up_and_decays_to_zero():
    factors = [SCHEDULE.factor(step) for step in range(10)]
    assert factors[:4] == [0.25, 0.5, 0.75, 1.0]
    assert factors[4] == 1.0
    assert factors[4:] == sorted(factors[4:], reverse=True)
    assert factors[7] == pytest.approx(0.5)  # half of the decay
    assert SCHEDULE.factor(10) == pytest.approx(0)


def test_a_run_shorter_than_its_warm_up_has_a_rate():
    assert Schedule(steps=2, warm_up=4, learning_rate=1.0, weight_decay=0.0).factor(1) == 0.5


def test_only_matrices_are_decayed_and_all_heads_are_trained():
    bank = HeadBank(8, horizontal=2, vertical=1)
    groups = build_optimiser(bank, SCHEDULE).param_groups
    decayed = set(groups[0]["param_names"])
    rest = set(groups[1]["param_names"])
    assert groups[0]["weight_decay"] == 0.1
    assert groups[1]["weight_decay"] == 0
    assert decayed | rest == {name for name, _ in bank.named_parameters()}
    assert all("norm" in name for name in rest)
    assert not any("norm" in name for name in decayed)


def test_strategies_by_name():
    def chosen(name, processes):
        return build_strategy(name, device=torch.device("cpu"), processes=processes, zero_stage=2)

    assert isinstance(chosen("auto", 1), SingleDeviceStrategy)
    assert isinstance(chosen("auto", 2), DDPStrategy)
    assert isinstance(chosen("ddp", 1), DDPStrategy)
    assert isinstance(chosen("fsdp2", 2), ModelParallelStrategy)


def module(bank):
    backbone = tiny_backbone()
    reads = Reader(backbone, guidance=2.0, siblings=bank.reads_siblings, seed=0)
    return HeadTraining(bank, backbone, SCHEDULE, reads=reads, chunk=100, seed=0)


def test_the_backbone_is_no_part_of_the_module():
    training = module(HeadBank(32, horizontal=2, vertical=1))
    assert {name.split(".")[0] for name in training.state_dict()} == {"bank"}
    assert {name for name, _ in training.named_children()} == {"bank"}


def test_a_loss_that_is_not_finite_names_head_step_and_images(tmp_path):
    bank = HeadBank(32, horizontal=2, vertical=1)
    with torch.no_grad():
        bank.predictors["v+1"].mix.weight[0, 0] = torch.nan
    images = rollouts(tmp_path)
    with pytest.raises(RowcastError, match=r"found nan of head v\+1 at step 0 on images 00000000, 00000002"):
        module(bank).training_step(Batch([images[0], images[2]], 0), 0)


def test_strip_enlarges_and_keeps_the_order():
    row = torch.arange(2, dtype=torch.uint8).view(2, 1, 1, 1).expand(2, 3, 16, 16)
    strip = image_strip([row, row + 10])
    assert strip.shape == (3, 2 * 64, 2 * 64)
    assert [int(strip[0, y, x]) for y in (0, 64) for x in (0, 64)] == [0, 1, 10, 11]


def test_what_kinds_paint_with_is_known():
    assert PAINTERS.keys() == HEADS.keys()


@pytest.mark.parametrize("kind", ["mtp", "eagle"])
def test_other_kinds_train_on_the_same_images(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    things, images = parts(kind), rollouts(tmp_path / "rollouts")
    before = torch.get_rng_state()
    last = fit(job(tmp_path, "trainer.steps=20"), things, images)
    assert torch.equal(before, torch.get_rng_state())
    found = read_metrics(tmp_path / "metrics.csv")
    losses = [float(value) for _, name, value in found if name == "loss"]
    assert losses[1] < losses[0]
    painter = next(iter(things.painters))
    forwards = [float(value) for _, name, value in found if name == f"{painter}/forwards"]
    assert len(forwards) == 6
    assert all(1 < count <= 12 for count in forwards)
    assert {f"{painter}/accepted/t+1", f"loss/{'t+1' if kind == 'mtp' else 'law'}"} <= {
        row[1] for row in found
    }
    assert saving.read_heads(last).keys() == things.bank.state_dict().keys()


def test_noise_is_the_same_after_a_resume(tmp_path, monkeypatch):
    """It depends on seed and step alone: a run that stops between checkpoints ends with the same weights."""
    monkeypatch.setenv("WANDB_MODE", "disabled")
    images, heads = rollouts(tmp_path / "rollouts"), {}
    save = saving.CheckpointKeeper.on_train_batch_end

    def stop(self, trainer, *rest):
        if trainer.global_step == 3:
            raise RowcastError("stopped")
        save(self, trainer, *rest)

    for name in ("stopped", "whole", "other"):
        (tmp_path / name).mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(saving.CheckpointKeeper, "on_train_batch_end", stop)
        with pytest.raises(RowcastError, match="stopped"):
            fit(job(tmp_path / "stopped", "trainer.steps=6"), parts("eagle", noise=0.2), images)
    for name, noise in (("stopped", 0.2), ("whole", 0.2), ("other", 0.3)):
        last = fit(job(tmp_path / name, "trainer.steps=6"), parts("eagle", noise=noise), images)
        heads[name] = torch.cat([weight.flatten() for weight in saving.read_heads(last).values()])
    assert torch.equal(heads["stopped"], heads["whole"])
    assert not torch.equal(heads["other"], heads["whole"])


class TestFit:
    """A real run in this process: it trains, leaves global randomness alone and stops at NaN."""

    @pytest.fixture
    def quiet(self, monkeypatch):
        monkeypatch.setenv("WANDB_MODE", "disabled")

    def test_training_lowers_the_loss_and_draws_no_global_randomness(self, tmp_path, quiet):
        things, images = parts(), rollouts(tmp_path / "rollouts")
        before = torch.get_rng_state()
        last = fit(job(tmp_path, "trainer.steps=20"), things, images)
        assert torch.equal(before, torch.get_rng_state())
        assert last.name == "step-000020.ckpt"
        heads = saving.read_heads(last)
        assert all(weight.equal(heads[name]) for name, weight in things.bank.state_dict().items())
        lines = (tmp_path / "metrics.csv").read_text().splitlines()
        losses = [float(line.split(",")[2]) for line in lines if ",loss," in line]
        assert len(losses) == 2
        assert losses[1] < losses[0]
        assert Image.open(tmp_path / "validation" / "step-000020.png").size[0] >= 2 * 4
        assert len(PROMPTS) == 2

    def test_checkpoints_that_do_not_fit_are_refused(self, tmp_path, quiet):
        images = rollouts(tmp_path / "rollouts")
        last = fit(job(tmp_path, "trainer.steps=4"), parts(), images)
        assert fit(job(tmp_path, "trainer.steps=4"), parts(), images) == last
        with pytest.raises(RowcastError, match="found: None in place of"):
            saving.check_fits(last, HeadBank(32, horizontal=3, vertical=2, correction=2.0).state_dict())
        torch.save({"state_dict": parts().bank.state_dict()}, last)
        with pytest.raises(RowcastError, match="no images_a_step or loops or lr_schedulers"):
            fit(job(tmp_path, "trainer.steps=4"), parts(), images)

    def test_the_reference_painting_is_made_again_when_it_does_not_match(self, tmp_path, quiet):
        images, path = rollouts(tmp_path / "rollouts"), tmp_path / "validation" / "ar.safetensors"
        fit(job(tmp_path, "trainer.steps=2"), parts(), images)
        made = path.read_bytes()
        path.write_bytes(b"junk")
        fit(job(tmp_path, "trainer.steps=4"), parts(), images)
        assert path.read_bytes() == made
        fit(job(tmp_path, "trainer.steps=6", "trainer.validation_images=1"), parts(), images)
        assert path.read_bytes() != made

    def test_a_disk_that_refuses_figures_is_one_line(self, tmp_path, quiet):
        (tmp_path / "validation").write_text("in the way")
        with pytest.raises(RowcastError, match=f"expected to write to {tmp_path}"):
            fit(job(tmp_path, "trainer.steps=2"), parts(), rollouts(tmp_path / "rollouts"))

    def test_a_full_disk_keeps_no_half_checkpoint(self, tmp_path, quiet):
        """A limit on the size of files stands in for the disk: torch reports both as a RuntimeError."""
        images = rollouts(tmp_path / "rollouts")
        fit(job(tmp_path, "trainer.steps=1", "trainer.save_every=1"), parts(), images)
        size = (tmp_path / "checkpoints" / "step-000001.ckpt").stat().st_size
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, limits[1]))
        try:
            with pytest.raises(RowcastError, match=r"expected to write a checkpoint to .*checkpoints, found"):
                fit(job(tmp_path, "trainer.steps=2"), parts(), images)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {
            "step-000000.ckpt",
            "step-000001.ckpt",
        }

    def test_weights_that_are_not_finite_never_reach_a_checkpoint(self, tmp_path, quiet, monkeypatch):
        step = saving.CheckpointKeeper.on_train_batch_end

        def overflow(self, trainer, module, *rest):
            if trainer.global_step == 4:
                with torch.no_grad():
                    next(module.parameters()).view(-1)[0] = torch.inf
            step(self, trainer, module, *rest)

        monkeypatch.setattr(saving.CheckpointKeeper, "on_train_batch_end", overflow)
        with pytest.raises(RowcastError, match="expected finite weights, found NaN or infinity in bank"):
            fit(job(tmp_path), parts(), rollouts(tmp_path / "rollouts"))
        assert [path.name for path in saving.checkpoints(tmp_path / "checkpoints")][-1] == "step-000002.ckpt"
