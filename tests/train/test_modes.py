"""`data.mode` decides when work is done, never what is learnt: the same lessons and weights, bit for bit."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from backbones.errors import RowcastError
from data.rollout import make_rollouts
from tests.data.sets import shards
from tests.train.session import PROMPTS, job, parts
from tests.train.test_command import finish, start
from train import saving
from train.fit import VALIDATION_SEED, fit
from train.module import HeadTraining
from train.source import open_stream

IMAGES, STEPS, STOP = 5, 10, 3
"""Two images a step: epochs of two steps, an image left over each time; stopped in the second."""


@pytest.fixture
def lessons(monkeypatch):
    """What every step learns from: its images, and all tensors of the lesson."""
    record, lesson = {}, HeadTraining.lesson

    def recorded(self, rollouts, readings, seed):
        made = lesson(self, rollouts, readings, seed)
        if seed == VALIDATION_SEED:
            return made
        others = made.require_siblings()
        tensors = (made.states, made.embeddings, others.places, others.embeddings, others.states)
        record[self.global_step] = ([rollout.key for rollout in rollouts], tensors)
        return made

    monkeypatch.setattr(HeadTraining, "lesson", recorded)
    return record


def trained(folder: Path, mode: str, *overrides: str) -> dict[str, torch.Tensor]:
    """The heads after a run, or the rest of one."""
    folder.mkdir(parents=True, exist_ok=True)
    options = job(
        folder,
        f"rollouts.folder={folder}/rollouts",
        f"rollouts.images={IMAGES}",
        "rollouts.batch=2",
        "rollouts.shard_images=2",
        f"data.mode={mode}",
        "data.pool_images=3",
        f"data.cache={folder}/states",
        *([] if overrides else ["trainer.batch=2"]),
        "trainer.save_every=2",
        "trainer.validate_every=100",
        f"trainer.steps={STEPS}",
        *overrides,
    )
    things = parts(correction=1.0)
    images = make_rollouts(
        things.backbone,
        PROMPTS,
        folder / "rollouts",
        images=1 if mode == "stream" else IMAGES,
        batch=2,
        shard_images=2,
        seed=0,
    )
    if mode == "stream":
        images = open_stream(options, things.backbone, things.sampling, things.prompts, 2)
    return saving.read_heads(fit(options, things, images))


def stopped(folder, mode, monkeypatch):
    """A run that breaks off between two checkpoints."""
    save = saving.CheckpointKeeper.on_train_batch_end

    def stop(self, trainer, *rest):
        if trainer.global_step == STOP:
            raise RowcastError("stopped")
        save(self, trainer, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(saving.CheckpointKeeper, "on_train_batch_end", stop)
        with pytest.raises(RowcastError, match="stopped"):
            trained(folder, mode)


@pytest.mark.unit
def test_all_modes_give_the_same_lessons_and_weights(tmp_path, lessons, monkeypatch):
    heads = {"ids": trained(tmp_path / "ids", "ids")}
    truth = dict(lessons)
    assert len(truth) == STEPS
    for name, modes in {
        "states": ["states", "states"],
        "stream": ["stream", "stream"],
        "changing": ["stream", "states"],
    }.items():
        lessons.clear()
        stopped(tmp_path / name, modes[0], monkeypatch)
        heads[name] = trained(tmp_path / name, modes[1])
        assert lessons.keys() == truth.keys()
        for step, (keys, tensors) in truth.items():
            assert lessons[step][0] == keys, (name, step)
            assert all(torch.equal(*pair) for pair in zip(lessons[step][1], tensors, strict=True))
        for weight, value in heads["ids"].items():
            assert torch.equal(heads[name][weight], value), (name, weight)
        if name != "changing":  # whose small shards nobody has gathered
            assert shards(tmp_path / name / "rollouts") == shards(tmp_path / "ids/rollouts")


@pytest.mark.unit
def test_kept_states_are_used(tmp_path, lessons, monkeypatch):
    """The control of the test above: another set of states in the cache is what is learnt from."""
    from data import cached_reading, state_shards

    monkeypatch.setattr(cached_reading, "DRAWS", 1)
    decode = state_shards.decode

    def altered(content):
        return {name: part + (name == "states") for name, part in decode(content).items()}

    monkeypatch.setattr("data.cache.decode", altered)
    before = trained(tmp_path / "ids", "ids")
    after = trained(tmp_path / "states", "states")
    assert any(not torch.equal(before[name], after[name]) for name in before)


@pytest.mark.integration
def test_the_command_streams_stops_and_goes_on_in_another_mode(tmp_path):
    """Ctrl-C in the middle of sampling; then the same run with cached states, to the end of the benchmark."""
    words = ["rollouts.images=12", "rollouts.batch=4", f"data.cache={tmp_path}/states"]
    words += ["benchmark.decoders=[ar]", "benchmark.images=1"]
    process = start(tmp_path, *words, "data.mode=stream", "data.pool_images=4", "trainer.steps=8")
    first = tmp_path / "train/checkpoints/step-000002.ckpt"
    while not first.exists():
        assert process.poll() is None, process.communicate()[0][-3000:]
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    status, output = finish(process)
    assert status == 130, output[-3000:]
    assert "Traceback" not in output
    assert "pool" in output
    status, output = finish(start(tmp_path, *words, "data.mode=states", "trainer.steps=8"))
    assert status == 0, output[-3000:]
    assert "resuming at step" in output
    assert list((tmp_path / "states").glob("*/*.tar"))
    assert (tmp_path / "train/benchmark/report.html").exists()


@pytest.mark.slow
def test_two_processes_that_stream_learn_what_two_with_all_images_do(tmp_path):
    """Each samples its own share; beside them, two that read and keep states in one folder."""
    heads, root = {}, Path(__file__).parents[2]
    for mode in ("ids", "stream", "states"):
        words = [sys.executable, "-m", "tests.train.test_modes", str(tmp_path / mode), mode]
        subprocess.run(words, cwd=root, check=True, timeout=300)
        heads[mode] = saving.read_heads(saving.checkpoints(tmp_path / mode / "checkpoints")[-1])
        assert shards(tmp_path / mode / "rollouts") == shards(tmp_path / "ids/rollouts")
        for weight, value in heads["ids"].items():
            assert torch.equal(heads[mode][weight], value), (mode, weight)
    assert len({path.parent for path in (tmp_path / "states/states").glob("*/*.tar")}) == 2


if __name__ == "__main__":
    trained(Path(sys.argv[1]), sys.argv[2], "trainer.devices=2")
