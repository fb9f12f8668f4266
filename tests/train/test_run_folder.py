"""The run's folder: one writer, one contract, nothing lost, and where a run goes on from."""

import json
import os
from pathlib import Path

import pytest
import torch

from backbones.errors import RowcastError
from train import run
from train.loggers import MetricsFile, last_metrics, read_metrics, wandb_logger
from train.saving import check_readable, checkpoint_name, write

pytestmark = pytest.mark.unit

CONTRACT = {"trainer.steps": 400, "model.fingerprint": "f00"}


def save(folder, *steps):
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    for step in steps:
        torch.save({"state_dict": {}}, folder / "checkpoints" / checkpoint_name(step))


def test_a_run_goes_on_under_its_contract_only(tmp_path):
    run.enter(tmp_path, CONTRACT, "a: 1\n")
    run.enter(tmp_path, CONTRACT, "a: 2\n")
    assert (tmp_path / "config.yaml").read_text() == "a: 2\n"
    with pytest.raises(RowcastError) as caught:
        run.enter(tmp_path, {"trainer.steps": 800, "model.fingerprint": "f00"}, "a: 3\n")
    assert "trainer.steps=400 (now 800)" in str(caught.value)
    assert "fingerprint" not in str(caught.value)
    assert "resume=false" in str(caught.value)
    assert (tmp_path / "config.yaml").read_text() == "a: 2\n"


@pytest.mark.parametrize("content", ["{", "5", "[]", "\xff"])
def test_a_damaged_contract_is_named(tmp_path, content):
    (tmp_path / run.CONTRACT).write_text(content, "latin-1")
    with pytest.raises(RowcastError, match="contract"):
        run.enter(tmp_path, CONTRACT, "")


def test_starting_anew_keeps_the_old_run(tmp_path):
    folder = tmp_path / "train"
    assert run.set_aside(folder) is None
    for expected in ("train.1", "train.2"):
        folder.mkdir()
        run.enter(folder, CONTRACT, "")
        save(folder, 10)
        (folder / "rollouts").mkdir()
        assert run.set_aside(folder) == tmp_path / expected
        assert run.resume_point(tmp_path / expected, "auto") is not None
        assert (tmp_path / expected / run.CONTRACT).exists()
        assert [path.name for path in folder.iterdir()] == ["rollouts"], "only the run's own files move"
        (folder / "rollouts").rmdir()
        folder.rmdir()


@pytest.mark.parametrize("place", [".", "heads", "checkpoints/rollouts"])
def test_rollouts_are_kept_apart_from_the_run(tmp_path, place):
    run.require_apart(tmp_path, tmp_path / "rollouts")
    with pytest.raises(RowcastError, match=r"expected rollouts.folder apart"):
        run.require_apart(tmp_path, tmp_path / place)


def test_checkpoints_without_a_contract_are_refused(tmp_path):
    save(tmp_path, 10)
    with pytest.raises(RowcastError, match=r"expected .*run.json"):
        run.enter(tmp_path, CONTRACT, "")
    assert not (tmp_path / run.CONTRACT).exists()
    run.set_aside(tmp_path)
    run.enter(tmp_path, CONTRACT, "")


def test_one_process_at_a_time(tmp_path):
    refused = pytest.raises(RowcastError, match="only process that writes to")
    with run.occupied(tmp_path), refused, run.occupied(tmp_path):
        pass
    with run.occupied(tmp_path):
        pass


def test_an_unwritable_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RowcastError, match="expected to write to"), run.occupied(tmp_path / "file" / "train"):
        pass


def test_resume_takes_the_last_whole_checkpoint(tmp_path):
    assert run.resume_point(tmp_path, "auto") is None
    save(tmp_path, 50, 100)
    (tmp_path / "checkpoints" / "unfinished.ckpt").write_bytes(b"half")
    assert run.resume_point(tmp_path, "auto") == tmp_path / "checkpoints" / "step-000100.ckpt"
    assert run.resume_point(tmp_path, "false") is None


def test_resume_from_a_path(tmp_path):
    save(tmp_path / "old", 50)
    path = tmp_path / "old" / "checkpoints" / "step-000050.ckpt"
    assert run.resume_point(tmp_path / "new", str(path)) == path
    save(tmp_path / "new", 100)
    with pytest.raises(RowcastError, match=r"found step-000100.ckpt: set resume=auto"):
        run.resume_point(tmp_path / "new", str(path))
    with pytest.raises(RowcastError, match="expected a checkpoint such as"):
        run.resume_point(tmp_path / "other", str(tmp_path / "nothing.ckpt"))


def test_a_checkpoint_of_another_run_brings_its_options(tmp_path):
    path = tmp_path / "old" / "checkpoints" / checkpoint_name(50)
    save(tmp_path / "old", 50)
    with pytest.raises(RowcastError, match="leave the checkpoint in the folder of its run"):
        run.require_origin(str(path), CONTRACT)
    (tmp_path / "old" / run.CONTRACT).write_text(json.dumps(CONTRACT))
    run.require_origin(str(path), CONTRACT | {"trainer.steps": 800})
    with pytest.raises(RowcastError, match=r"trainer.learning_rate=None \(now 1.0\)"):
        run.require_origin(str(path), CONTRACT | {"trainer.learning_rate": 1.0})
    with pytest.raises(RowcastError, match=r"at most trainer.steps=49 steps"):
        run.require_origin(str(path), CONTRACT | {"trainer.steps": 49})


@pytest.mark.parametrize("damage", ["truncated", "empty", "pickle", "altered"])
def test_a_damaged_checkpoint_is_named_before_training(tmp_path, damage):
    path = tmp_path / checkpoint_name(10)
    torch.save({"state_dict": {"w": torch.ones(1000)}}, path)
    check_readable(path)
    if damage == "pickle":
        torch.save({"state_dict": os.getcwd}, path)  # code, which is never run
    elif damage == "altered":
        content = path.read_bytes()
        middle = content.index(torch.ones(100).numpy().tobytes())
        path.write_bytes(content[:middle] + b"junk" + content[middle + 4 :])
        torch.load(path, weights_only=True)  # torch does not mind
    else:
        os.truncate(path, 0 if damage == "empty" else path.stat().st_size // 2)
    with pytest.raises(RowcastError, match=f"expected a checkpoint of these heads in {path}"):
        check_readable(path)


def test_a_full_disk_is_an_os_error():
    """What the keeper turns into a sentence; torch could as well have raised something of its own."""
    with pytest.raises(OSError, match="space"):
        write({"w": torch.ones(100_000)}, Path("/dev/full"))


def test_metrics_go_on_where_the_checkpoint_stands(tmp_path):
    log = MetricsFile(tmp_path, None)
    log.log_metrics({"loss": 2.0, "ssd/accepted/h+1": 0.5}, 10)
    log.log_metrics({"loss": 1.0}, 20)
    with (tmp_path / "metrics.csv").open("a") as file:
        file.write("30,lo")  # killed in the middle of a line
    again = MetricsFile(tmp_path, 10)
    again.log_metrics({"loss": 1.5}, 20)
    assert read_metrics(tmp_path / "metrics.csv") == [
        (10, "loss", 2.0),
        (10, "ssd/accepted/h+1", 0.5),
        (20, "loss", 1.5),
    ]
    assert last_metrics(tmp_path / "metrics.csv") == {"loss": 1.5, "ssd/accepted/h+1": 0.5}


@pytest.mark.parametrize("junk", [b"what\n", b"1,loss,high\n", b"\xff\xfe\n"])
def test_junk_among_the_metrics_is_named(tmp_path, junk):
    (tmp_path / "metrics.csv").write_bytes(b"step,name,value\n1,loss,2.0\n" + junk)
    with pytest.raises(RowcastError, match=r"expected lines of step,name,value in .*metrics.csv"):
        MetricsFile(tmp_path, 10)


def test_wandb_that_refuses_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    with pytest.raises(RowcastError, match=r"expected wandb to start with wandb.mode=offline"):
        wandb_logger("offline", "no/slash", tmp_path, {})


def test_wandb_never_asks(tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert wandb_logger("disabled", "rowcast", tmp_path, {}) is None
    with pytest.raises(RowcastError, match="wandb login"):
        wandb_logger("online", "rowcast", tmp_path, {})
