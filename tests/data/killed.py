"""Run as a process: makes a set of rollouts with the tiny backbone, to be killed from outside or by itself.

python -m tests.data.killed FOLDER IMAGES [PAUSE]   one set, with a pause at each batch
python -m tests.data.killed FOLDER --points    for n = 1, 2, ...: a fork dies at its n-th fsync, then the set
                                               is finished in FOLDER/n; ends when a fork reaches its end alive
"""

import os
import signal
import sys
import time
from pathlib import Path

import torch

from backbones.contract import Prompt, Step
from data.rollout import make_rollouts
from tests.backbones.tiny import tiny_backbone

PROMPTS = ["a bag", "a longer prompt for a sneaker", "two words"]


def make(folder: Path | str, images: int = 5, pause: float = 0) -> int:
    """How many images this process has sampled."""
    backbone = tiny_backbone(2, 2)
    sampled: list[int] = []
    begin = backbone.begin

    def counted(prompt: Prompt) -> Step:
        step = begin(prompt)
        sampled.append(len(step.logits) // 2)
        time.sleep(pause)
        return step

    backbone.begin = counted
    make_rollouts(backbone, PROMPTS, folder, images=images, batch=2, shard_images=3, seed=1)
    return sum(sampled)


def dies_at(point: int, folder: Path) -> bool:
    """Whether a fork of this process is killed by its `point`-th fsync, in the middle of the work."""
    child = os.fork()
    if child == 0:
        fsync, calls = os.fsync, []

        def deadly(handle: int) -> None:
            calls.append(handle)
            if len(calls) == point:
                os.kill(os.getpid(), signal.SIGKILL)
            fsync(handle)

        os.fsync = deadly
        make(folder)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[2] != "--points":
        images, *pause = sys.argv[2:]
        print(f"sampled {make(sys.argv[1], int(images), *map(float, pause))} images")
        return
    folder = Path(sys.argv[1])
    point = 1
    while dies_at(point, folder / str(point)):
        make(folder / str(point))
        point += 1


if __name__ == "__main__":
    main()
