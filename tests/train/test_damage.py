"""A shard is damaged while heads are trained on it: the run stops, or goes on as if nothing had been."""

import pytest
import torch

from backbones.errors import RowcastError
from data.manifest import read_manifest
from data.rollout import make_rollouts
from data.storage import open_storage
from tests.data.damage import KINDS
from tests.train.session import IMAGES, PROMPTS, job, parts
from train import saving
from train.fit import fit

pytestmark = pytest.mark.unit

STEPS = 6


def train(folder, monkeypatch, on_damage="stop", kind=None):
    """Trains for two epochs; in the first of them, a shard may be damaged."""
    monkeypatch.setenv("WANDB_MODE", "disabled")
    things, place = parts(), folder / "rollouts"
    images = make_rollouts(
        things.backbone,
        PROMPTS,
        place,
        images=IMAGES,
        batch=IMAGES,
        shard_images=IMAGES,
        seed=0,
        on_damage=on_damage,
    )
    keep = saving.CheckpointKeeper.on_train_batch_end

    def spoil(self, trainer, *rest):
        keep(self, trainer, *rest)
        if kind and trainer.global_step == 2:
            entry = read_manifest(open_storage(place))[0]
            path = place / entry.shard
            path.write_bytes(KINDS[kind][0](path.read_bytes(), entry))

    (folder / "run").mkdir(parents=True)
    with monkeypatch.context() as patched:
        patched.setattr(saving.CheckpointKeeper, "on_train_batch_end", spoil)
        last = fit(job(folder / "run", f"trainer.steps={STEPS}"), things, images)
    return saving.read_heads(last)


@pytest.mark.parametrize("kind", ["bit flip", "empty file"])
def test_quarantine_leads_to_the_weights_of_an_undamaged_run(tmp_path, monkeypatch, capfd, kind):
    heads = train(tmp_path / "damaged", monkeypatch, "quarantine", kind)
    whole = train(tmp_path / "whole", monkeypatch)
    assert all(torch.equal(weight, whole[name]) for name, weight in heads.items())
    assert f"was found {KINDS[kind][1]}" in capfd.readouterr().err
    assert len(list((tmp_path / "damaged/rollouts/quarantine").iterdir())) == 1


def test_stop_keeps_the_last_checkpoint_and_names_the_image(tmp_path, monkeypatch):
    with pytest.raises(RowcastError, match=r"found it with a garbage header, first at image 00000001"):
        train(tmp_path, monkeypatch, "stop", "garbage header")
    assert [path.name for path in saving.checkpoints(tmp_path / "run/checkpoints")][-1] == "step-000002.ckpt"
