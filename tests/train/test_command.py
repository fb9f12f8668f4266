"""`python -m train` as a user runs it: killed during rollouts, training and benchmark, then run again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from conf.check import FOLDER, typed
from conf.schema import TrainJob
from data.bill import occupied
from train.bill.disk import items, missing
from train.bill.setting import published

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
OPTIONS = [
    "rollouts.images=4",
    "rollouts.batch=2",
    "rollouts.shard_images=2",
    "trainer.steps=6",
    "trainer.batch=1",
    "trainer.learning_rate=0.001",
    "trainer.save_every=2",
    "trainer.validation_images=1",
    "benchmark.decoders=[ar,ssd]",
    "benchmark.images=3",
    "benchmark.warm_up=0",
    "benchmark.quality_images=0",
    "wandb.mode=disabled",
]


def start(folder, *options):
    given = [*OPTIONS, f"folder={folder}/train", f"rollouts.folder={folder}/rollouts", *options]
    words = list({word.partition("=")[0]: word for word in given}.values())  # the last of a name counts
    return subprocess.Popen(
        [sys.executable, "-m", "train", *words],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    output = process.communicate(timeout=200)[0]
    return process.returncode, output


def kill_when(process, reached, sent=signal.SIGKILL):
    """Stops a process as soon as a condition on the files holds; it must not end before. Its output."""
    limit = time.monotonic() + 200
    while not reached():
        assert process.poll() is None, process.communicate()[0][-3000:]
        assert time.monotonic() < limit
        time.sleep(0.01)
    process.send_signal(sent)
    status, output = finish(process)
    assert status == (130 if sent == signal.SIGINT else -sent)
    return output


def lines(folder, pattern):
    return sum(path.read_bytes().count(b"\n") for path in folder.glob(pattern))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("command")
    whole, killed = folder / "whole", folder / "killed"
    assert finish(start(whole))[0] == 0
    kill_when(start(killed), lambda: lines(killed, "rollouts/rollouts-*.json") >= 1)
    stopped = kill_when(start(killed), (killed / "train/checkpoints/step-000002.ckpt").exists, signal.SIGINT)
    kill_when(start(killed), lambda: lines(killed, "train/benchmark/*.jsonl") >= 2)
    status, output = finish(start(killed))
    assert status == 0, output[-3000:]
    return whole, killed, output, stopped


def test_the_heads_are_those_of_an_uninterrupted_run(runs):
    whole, killed, output, _ = runs
    for name in (
        "rollouts/rollouts-00000002-00000004.json",
        "train/heads/heads.safetensors",
        "train/validation/step-000006.png",
    ):
        assert (whole / name).read_bytes() == (killed / name).read_bytes(), name
    assert "already trained" in output


def test_the_bundle_holds_the_results_of_its_own_heads(runs):
    for folder in runs[:2]:
        results, config = (
            json.loads((folder / "train/heads" / name).read_text())
            for name in ("results.json", "config.json")
        )
        assert results["weights_sha256"] == config["weights_sha256"]
        assert [decoder["name"] for decoder in results["decoders"]] == ["ar", "ssd"]
        assert (folder / "train/heads/samples.png").read_bytes().startswith(b"\x89PNG")


def test_the_run_folder_says_what_it_holds(runs):
    whole = runs[0]
    names = {path.name for path in (whole / "train").iterdir()}
    expected = {
        "config.yaml",
        "run.json",
        "metrics.csv",
        "learning.json",
        "checkpoints",
        "validation",
        "heads",
        "benchmark",
    }
    assert names - {".lock"} == expected
    assert (whole / "train/benchmark/report.html").exists()


def test_the_run_has_written_what_its_bill_says(runs):
    """Item by item where the options fix the bytes, and in all."""
    folder = runs[0]
    words = [*OPTIONS, f"folder={folder}/train", f"rollouts.folder={folder}/rollouts"]
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        job = typed(compose("train", words), TrainJob)
    setting = published(job, "cpu")
    said = items(setting)
    for item in said:
        written = occupied(item.folder)
        if item.folder == job.rollouts.folder:
            kind = "tar" if item.name == "rollouts" else "json"
            written = sum(path.stat().st_size for path in Path(item.folder).glob(f"*.{kind}"))
        if item.exact:
            assert item.bytes == pytest.approx(written, rel=0.02), item.name
    whole = occupied(str(folder))
    assert sum(item.bytes for item in said) == pytest.approx(whole, rel=0.02)
    assert sum(item.bytes for item in said if not item.exact) < 0.01 * whole, "what is estimated is small"
    assert missing(said) < 0.01 * whole, "all of it is there"


def test_other_options_are_refused_in_the_same_folder(runs):
    whole = runs[0]
    status, output = finish(start(whole, "trainer.learning_rate=0.5"))
    assert status == 2
    assert "trainer.learning_rate=0.001 (now 0.5)" in output.splitlines()[-1]


def test_ctrl_c_says_how_to_go_on(runs):
    assert "to go on, run python -m train" in runs[3].splitlines()[-1]


def test_two_processes_share_a_folder(runs):
    """Lightning starts the second one, which repeats the command."""
    folder = runs[0].parent / "two"
    words = ("trainer.devices=2", "trainer.strategy=fsdp2", "trainer.steps=2", "benchmark.images=1")
    status, output = finish(start(folder, *words, f"rollouts.folder={runs[0]}/rollouts"))
    assert status == 0, output[-3000:]
    assert (folder / "train/heads/heads.safetensors").exists()
    assert [path.name for path in folder.iterdir()] == ["train"]
    assert output.count("2/4 training") == 1
