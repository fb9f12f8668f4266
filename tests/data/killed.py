"""Run as a process: makes a set of rollouts with the tiny backbone, to be killed from outside or by itself.

python -m tests.data.killed FOLDER             one set
python -m tests.data.killed FOLDER --points    for n = 1, 2, ...: a fork dies at its n-th fsync, then the set
                                               is finished in FOLDER/n; ends when a fork reaches its end alive
"""

import os
import signal
import sys
from pathlib import Path

import torch

from data.rollout import make_rollouts
from tests.backbones.tiny import tiny_backbone

PROMPTS = ["a bag", "a longer prompt for a sneaker", "two words"]


def make(folder: Path, images: int = 5) -> None:
    make_rollouts(tiny_backbone(2, 2), PROMPTS, folder, images=images, batch=2, shard_images=3, seed=1)


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
    folder = Path(sys.argv[1])
    if sys.argv[2:] != ["--points"]:
        make(folder, images=int(sys.argv[2]) if sys.argv[2:] else 5)
        return
    point = 1
    while dies_at(point, folder / str(point)):
        make(folder / str(point))
        point += 1


if __name__ == "__main__":
    main()
