"""Runs of several processes on the tiny backbone; one process has imported everything and forks them all.

python -m tests.train.worlds FOLDER
"""

import gc
import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch
from lightning.pytorch.utilities import rank_zero_only

from backbones.errors import RowcastError
from tests.train.session import (
    die,
    job,
    kill_after_step,
    kill_before_renaming,
    kill_while_writing,
    lose_loader_position,
    parts,
    rollouts,
)
from train import saving
from train.agreement import ElsewhereError
from train.fit import fit
from train.module import HeadTraining

STRATEGIES = {
    "ddp": ["trainer.strategy=ddp"],
    "zero1": ["trainer.strategy=deepspeed", "trainer.zero_stage=1"],
    "zero2": ["trainer.strategy=deepspeed", "trainer.zero_stage=2"],
    "zero3": ["trainer.strategy=deepspeed", "trainer.zero_stage=3"],
    "fsdp2": ["trainer.strategy=fsdp2"],
}
IMAGES, STEPS = 12, 8
"""With two batches a step, two processes end an epoch at steps 3 and 6, and one process at step 6."""
COMMON = [
    f"trainer.steps={STEPS}",
    "trainer.accumulate=2",
    "trainer.clip=0.05",  # below every gradient: a strategy that scales its gradients otherwise shows
    "trainer.learning_rate=0.01",
    "trainer.save_every=2",
    "trainer.validate_every=8",
    "trainer.validation_images=1",
]
PAINTED = ["trainer.validate_every=4", "trainer.validation_images=2"]
LIMIT_S = 60
KILLED = -signal.SIGKILL


def together(count: int, action: Callable[[], object]) -> list[int]:
    """Forks the processes of a run as torchrun starts them; the exit status of each, minus a signal."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = [os.fork() or _child(rank, count, port, action) for rank in range(count)]
    found: dict[int, int] = {}
    limit = time.monotonic() + LIMIT_S
    while len(found) < count:
        for child in [child for child in children if child not in found]:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                found[child] = os.waitstatus_to_exitcode(status)
        if any(code < 0 for code in found.values()) or time.monotonic() > limit:
            for child in [child for child in children if child not in found]:
                with suppress(ProcessLookupError):  # what torchrun does when one has died
                    os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
    return [found[child] for child in children]


def _child(rank: int, count: int, port: int, action: Callable[[], object]) -> int:
    sizes = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "GROUP_RANK": 0, "MASTER_PORT": port}
    places = {"RANK": rank, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RUN_ID": "test"}
    os.environ |= {name: str(value) for name, value in (places | sizes).items()}
    rank_zero_only.rank = rank  # Lightning has read it from the environment when it was imported
    status = 1
    try:
        action()
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def record(folder: Path) -> None:
    """Notes every batch that is trained on: [step, loss, keys of the images]."""
    step = HeadTraining.training_step
    path = folder / f"batches-{os.environ['RANK']}.jsonl"

    def training_step(self, batch, batch_idx):
        loss = step(self, batch, batch_idx)
        line = json.dumps([self.global_step, loss.item(), [rollout.key for rollout in batch.rollouts]])
        with path.open("a") as file:
            file.write(line + "\n")
        return loss

    HeadTraining.training_step = training_step


def run(folder: Path, *words: str, heads: dict[str, float] | None = None) -> None:
    """A run in the processes that `together` made; one that fails says why in a file."""
    things = parts(**(heads or {}))
    try:
        last = fit(job(folder, *COMMON, *words), things, rollouts(folder.parent / "rollouts", IMAGES))
    except RowcastError as error:
        kind = "elsewhere" if isinstance(error, ElsewhereError) else "here"
        (folder / f"error-{os.environ['RANK']}.txt").write_text(f"{kind}: {error}")
        return
    if os.environ["RANK"] == "0":
        kept = things.bank.state_dict()
        same = all(kept[name].equal(weight) for name, weight in saving.read_heads(last).items())
        (folder / "painted.json").write_text(json.dumps(same))


def kill_after_saving(step: int) -> None:
    give_name = saving.publish

    def publish(temporary, target):
        give_name(temporary, target)
        if target.name == saving.checkpoint_name(step):
            die()

    saving.publish = publish


def first(harm: Callable[[], object]) -> None:
    """Does something to the first process alone."""
    if os.environ["RANK"] == "0":
        harm()


def spoil_second(step: int) -> None:
    """One weight of the second process becomes NaN, as by a fault of its memory."""
    begin = HeadTraining.training_step

    def training_step(self, batch, batch_idx):
        if self.global_step == step and os.environ["RANK"] == "1":
            with torch.no_grad():
                next(self.parameters()).view(-1)[0] = torch.nan
        return begin(self, batch, batch_idx)

    HeadTraining.training_step = training_step


def fill_disk() -> None:
    """A limit on the size of files stands in for a disk that is full when a checkpoint is written."""
    write = saving.write

    def full(checkpoint, path):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
        try:
            write(checkpoint, path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    saving.write = full


Harm = Callable[[], object]


def scenario(folder: Path, *stages: tuple[int, list[str], Harm | None, int], **heads: float) -> None:
    """Stages of one run: processes, options, what befalls the first of them, its exit status."""
    folder.mkdir()
    for count, words, harm, status in stages:

        def action(words=(f"trainer.devices={count}", *words), harm=harm):
            record(folder)
            if harm is not None:
                harm()
            run(folder, *words, heads=heads)

        before = _spent()
        found = together(count, action)
        print(f"{folder.name}: {found} {_spent() - before:.1f} s", flush=True)
        assert found[0] == status, (folder.name, words, found)


def _spent() -> float:
    """CPU seconds of all children."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def import_all() -> None:
    """What strategies import when they are chosen; garbage collections skip it."""
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed
    import torch.distributed.fsdp

    assert deepspeed
    assert torch.distributed.fsdp.fully_shard
    gc.freeze()


def interrupted(folder: Path) -> None:
    """One process, and two under the strategies that promise equal bits: whole runs, and killed ones."""
    for name in ("one", "ddp", "zero2"):
        count, words = (1, PAINTED) if name == "one" else (2, STRATEGIES[name])
        scenario(
            folder / f"{name}-killed",
            (count, words, lambda: first(lambda: kill_after_step(3)), KILLED),  # from 2 on, in an epoch
            (count, words, lambda: first(lambda: kill_while_writing(4)), KILLED),
            (count, words, lambda: first(lambda: kill_after_step(7)), KILLED),  # from 6 on, between epochs
            (count, words, None, 0),
        )
    scenario(
        folder / "one-unsaved",
        (1, PAINTED, lambda: kill_while_writing(0), KILLED),
        (1, PAINTED, lambda: kill_before_renaming(8), KILLED),
        (1, PAINTED, None, 0),
    )
    scenario(
        folder / "one-forgetful",
        (1, PAINTED, lambda: kill_after_step(3), KILLED),
        (1, PAINTED, lose_loader_position, 0),
    )


def elastic(folder: Path) -> None:
    """Runs that go on under another strategy, or in another number of processes."""
    after = {step: (lambda step=step: first(lambda: kill_after_saving(step))) for step in (2, 4, 6)}
    scenario(
        folder / "moved",
        (2, STRATEGIES["zero3"], after[2], KILLED),
        (2, STRATEGIES["fsdp2"], after[4], KILLED),
        (2, STRATEGIES["zero1"], after[6], KILLED),
        (2, STRATEGIES["zero3"], None, 0),
    )
    # Without the correction head, whose random numbers depend on the process.
    scenario(folder / "two", (2, [], None, 0), correction=0)
    scenario(
        folder / "two-one-two",
        (2, [], after[2], KILLED),
        (1, ["trainer.accumulate=4"], after[4], KILLED),
        (2, [], None, 0),
        correction=0,
    )
    # No number of elements can be divided by three here, so that shards are uneven or padded.
    short = ["trainer.steps=6"]
    scenario(folder / "three", (3, short, None, 0))
    scenario(
        folder / "three-moved",
        (3, [*STRATEGIES["zero3"], *short], after[2], KILLED),
        (3, [*STRATEGIES["fsdp2"], *short], after[4], KILLED),
        (3, [*STRATEGIES["zero3"], *short], None, 0),
    )
    smaller = ["trainer.save_every=1"]
    scenario(
        folder / "other-steps",
        (2, smaller, after[2], KILLED),
        (1, [*STRATEGIES["fsdp2"], "trainer.accumulate=1", *smaller], after[4], KILLED),
        (2, [*STRATEGIES["zero2"], "trainer.accumulate=1", "trainer.steps=5", *smaller], None, 0),
        correction=0,
    )


def broken(folder: Path) -> None:
    """Runs that one of two processes has to stop."""
    scenario(folder / "nan", (2, STRATEGIES["ddp"], lambda: spoil_second(3), 0))
    scenario(
        folder / "full",
        (2, ["trainer.steps=2"], None, 0),
        (2, STRATEGIES["zero3"], lambda: first(fill_disk), 0),
    )


def main(folder: Path) -> None:
    import_all()
    rollouts(folder / "rollouts", IMAGES)
    scenario(folder / "one", (1, PAINTED, None, 0))
    for name, words in STRATEGIES.items():
        scenario(folder / name, (2, words, None, 0))
    interrupted(folder)
    elastic(folder)
    broken(folder)
    for name in ("ddp", "zero2"):
        words = ["trainer.precision=bf16-mixed", "trainer.steps=4"]
        scenario(folder / f"{name}-bf16", (2, [*STRATEGIES[name], *words], None, 0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
