"""Around the arithmetic of training little is spent, measured in CPU time as on a busy machine it must be."""

import pytest
import torch

from backbones.registry import load_backbone
from data.rollout import make_rollouts
from heads.kinds import build_heads
from heads.options import parse_heads
from tests.train.session import job
from train.fit import Parts
from train.throughput import Cost, Throughput, measure, table

pytestmark = pytest.mark.integration


def test_a_cost_is_the_mean_over_the_steps_of_a_round():
    cost = Cost()
    cost.add([(0.0, 0.0), (3.0, 1.0), (10.0, 5.0), (11.0, 6.0)], steps=2)
    assert (cost.wall, cost.cpu) == ([2.0], [1.0])


def test_the_share_is_what_the_parts_take_of_a_step():
    result = Throughput(images=2)
    for cost, seconds in ((result.backbone, 0.5), (result.heads, 0.25), (result.training, 1.0)):
        cost.add([(0.0, 0.0), (seconds, 2 * seconds)], steps=1)
    result.optimiser.add([(0.0, 0.0), (0.1, 0.1)], steps=1)
    assert (result.shares("wall"), result.shares("cpu")) == ([0.75], [0.75])
    assert "training keeps LESS THAN 80% of the pace" in table(result)
    assert "2 images/s" in table(result)


def test_training_the_pocket_model_is_mostly_arithmetic(tmp_path, monkeypatch):
    """At least 80 % by `python -m train.throughput`; lower here, where one short round has to do."""
    monkeypatch.setenv("WANDB_MODE", "disabled")
    backbone = load_backbone("pocket", device="cpu")
    prompts = ["a red sneaker on blue", "a white coat on black"]
    rollouts = make_rollouts(
        backbone, prompts, tmp_path / "rollouts", images=2, batch=2, shard_images=2, seed=0
    )
    torch.manual_seed(0)
    bank = build_heads("ssd", backbone.width, parse_heads({"name": "ssd"})[1])
    parts = Parts(backbone=backbone, bank=bank, sampling=backbone.sampling, prompts=prompts, painters={})
    options = ("trainer.batch=2", f"rollouts.folder={tmp_path / 'rollouts'}")
    result = measure(job(tmp_path / "run", *options), parts, rollouts, rounds=1, steps=5)
    print(f"\n{table(result)}")
    assert result.shares("cpu")[0] > 0.6
    assert not (tmp_path / "run").exists()
