"""Saves bundles in forked processes that are killed with SIGKILL, and says what each kill left.

Run as `python -m tests.checkpoints.saver <folder>`; prints one JSON line. It is a process of its own, so that
forking is safe.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from functools import partial
from pathlib import Path

from backbones.errors import RowcastError
from checkpoints.bundle import load_bundle
from checkpoints.weights import sha256_of
from tests.backbones.tiny import tiny_backbone
from tests.checkpoints.bundles import random_bank, save

WATCHED = ("open", "os.rename", "os.remove")
BACKBONE = tiny_backbone()
BANKS = {name: random_bank(BACKBONE, seed) for seed, name in enumerate(["old", "new"])}


def ours(name, folder):
    save(folder, BANKS[name], BACKBONE, metrics={"name": name})


def naive(name, folder):
    """The negative control: both files are replaced under their own names, one after the other."""
    fresh = folder.with_name("fresh")
    ours(name, fresh)
    (fresh / "heads.safetensors").replace(folder / "heads.safetensors")
    (fresh / "config.json").replace(folder / "config.json")


def found(folder):
    """Which bundle loads from `folder`: its name, and only if its weights are those of that name."""
    try:
        config = load_bundle(folder, BACKBONE).config
    except RowcastError as error:
        return f"broken: {error}"
    weights = folder.parent / str(config.metrics["name"]) / "heads.safetensors"
    return config.metrics["name"] if sha256_of(weights) == config.weights_sha256 else "mixed"


def killed_at(operation, work, folder):
    """Runs `work` in a child that dies just before its n-th file operation; False if it got to its end."""
    child = os.fork()
    if child == 0:
        seen = 0

        def watch(event, _):
            nonlocal seen
            if event in WATCHED:
                seen += 1
                if seen == operation:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        try:
            work(folder)
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in {0, -signal.SIGKILL}
    return status != 0


def every_kill(root, start, work):
    """What is found after a kill at each operation of `work` over a copy of `start`, and at the end."""
    states = []
    for operation in range(1, 100):
        folder = Path(shutil.copytree(root / start, root / "target"))
        killed = killed_at(operation, work, folder)
        states.append(found(folder))
        if killed and states[-1] == "new" and not (root / "half").exists():
            shutil.copytree(folder, root / "half")
        ours("new", folder)
        if found(folder) != "new" or len(list(folder.iterdir())) != 3:
            states.append("not repaired by the next save")
        shutil.rmtree(folder)
        if not killed:
            return states
    raise AssertionError("the save never came to its end")


def kills_by_the_clock(root, times):
    """What is found after each of many kills at random moments of endless saves over one folder."""
    chance, folder, states = random.Random(0), root / "loop", []
    ours("old", folder)
    for _ in range(times):
        child = os.fork()
        while child == 0:
            ours("new", folder)
            ours("old", folder)
        time.sleep(chance.uniform(0.0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        states.append(found(folder))
    return states


def main(root):
    for name in BANKS:
        ours(name, root / name)
    report = {
        "ours": every_kill(root, "old", partial(ours, "new")),
        "after a kill": every_kill(root, "half", partial(ours, "old")),
        "naive": every_kill(root, "old", partial(naive, "new")),
        "clock": kills_by_the_clock(root, 10),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
