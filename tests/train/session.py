"""Parts of training runs on the tiny backbone, and what may befall them."""

import os
import signal
from pathlib import Path

import torch
from hydra import compose, initialize_config_dir

from conf.check import FOLDER, typed
from conf.schema import TrainJob
from data.rollout import make_rollouts
from data.rollouts import RolloutSet
from decoding.methods import build_method
from heads.kinds import build_heads
from heads.options import parse_heads
from tests.backbones.tiny import tiny_backbone
from train import saving
from train.fit import Parts
from train.steps import WholeRun

IMAGES, STEPS = 3, 10
PROMPTS = ["a red sneaker on blue", "a coat"]
PAINTERS: dict[str, tuple[str, dict[str, object]]] = {
    "ssd": ("ssd", {"rounds": 1, "first_row": {"block": 3}}),
    "mtp": ("mtp_strict", {}),
    "eagle": ("eagle", {"depth": 2, "children": 2, "nodes": 3}),
}
SETTINGS = [
    f"trainer.steps={STEPS}",
    "trainer.batch=1",
    "trainer.warm_up=2",
    "trainer.save_every=2",
    "trainer.validate_every=4",
    "trainer.validation_images=2",
    "wandb.mode=disabled",
]


def job(folder: Path, *overrides: str) -> TrainJob:
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        config = compose("train", [*SETTINGS, f"folder={folder}", *overrides])
    return typed(config, TrainJob)


def parts(kind: str = "ssd", **options: float) -> Parts:
    backbone = tiny_backbone()
    torch.manual_seed(0)
    sizes = {"horizontal": 3, "vertical": 1} if kind == "ssd" else {}
    bank = build_heads(kind, backbone.width, parse_heads({"name": kind, **sizes, **options})[1])
    painter, settings = PAINTERS[kind]
    return Parts(
        backbone=backbone,
        bank=bank,
        sampling=backbone.sampling,
        prompts=PROMPTS,
        painters={painter: build_method(painter, settings, bank)},
    )


def rollouts(folder: Path, images: int = IMAGES) -> RolloutSet:
    return make_rollouts(
        tiny_backbone(), PROMPTS, folder, images=images, batch=images, shard_images=images, seed=0
    )


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_after_step(step: int) -> None:
    """Dies when a step is done and nothing of it is saved."""
    keep = saving.CheckpointKeeper.on_train_batch_end

    def on_train_batch_end(self, trainer, *rest):
        if trainer.global_step == step:
            die()
        keep(self, trainer, *rest)

    saving.CheckpointKeeper.on_train_batch_end = on_train_batch_end


def kill_while_writing(step: int) -> None:
    """Dies with half a checkpoint on disk."""
    write = saving.write

    def half(checkpoint, path):
        write(checkpoint, path)
        if checkpoint["global_step"] == step:
            os.truncate(path, path.stat().st_size // 2)
            die()

    saving.write = half


def kill_before_renaming(step: int) -> None:
    """Dies with a whole checkpoint under its temporary name."""
    give_name = saving.publish

    def publish(temporary, target):
        if target.name == saving.checkpoint_name(step):
            die()
        give_name(temporary, target)

    saving.publish = publish


def lose_loader_position() -> None:
    """What a plain loader does on resume, as a control: it starts its epoch again."""
    WholeRun.load_state_dict = lambda self, state: None
