"""The command line as a user meets it: real `python -m train` processes."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from backbones.errors import RowcastError
from backbones.registry import FAMILIES
from conf.launch import help_text
from tests.process import run_module

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def command(*words, program="train"):
    return run_module(program, *words)


MODELS = ", ".join(sorted(FAMILIES))
MISTAKES = {
    "model=nosuch": f"train: unknown model 'nosuch': choose model= one of {MODELS}",
    "+model=nosuch": f"train: unknown model 'nosuch': choose model= one of {MODELS}",
    "trainer.devces=2": "train: unknown option trainer.devces: did you mean trainer.devices?",
    "+trainer.devces=2": "train: unknown option trainer.devces: did you mean trainer.devices?",
    "trainer.devices=two": "train: option trainer.devices: expected int, found 'two'",
    "folder=a,b": "train: option folder: a text with commas needs quotes, 'folder=\"a,b\"'",
}


@pytest.mark.parametrize("word", MISTAKES)
def test_a_mistake_is_one_line_and_status_2(word):
    done = command(word)
    assert (done.returncode, done.stderr, done.stdout) == (2, MISTAKES[word] + "\n", "")


@pytest.mark.parametrize("word", ["model=pocket", "+model=pocket"])
def test_both_spellings_of_a_group_work(word, tmp_path):
    done = command(word, f"model.path={tmp_path / 'missing'}")
    # The weights are what is missing; the model was found.
    assert done.returncode == 2
    assert str(tmp_path / "missing") in done.stderr
    assert "unknown" not in done.stderr


@pytest.mark.parametrize("program", ["train", "decoding", "eval"])
def test_help_is_fast_and_shows_every_option_with_its_comment(program):
    start = time.perf_counter()
    done = command("--help", program=program)
    assert done.returncode == 0
    assert f"choose with model= {MODELS}" in done.stdout
    assert f"python -m {program}" in done.stdout
    assert time.perf_counter() - start < 5  # 0.3 s on an idle core; torch alone takes longer
    heavy = (
        "import sys; sys.argv = ['x', '-h']; from conf.launch import launch; launch('train', object, print)"
    )
    heavy += "; sys.exit(bool({'torch', 'lightning', 'transformers'} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", heavy], cwd=ROOT, capture_output=True, timeout=60, check=False
        ).returncode
        == 0
    )


def test_hydra_leaves_no_folders(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "train", f"model.path={tmp_path / 'missing'}"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    # The job made its own folder and Hydra none beside it.
    assert {path.name for path in tmp_path.rglob("*")} <= {"outputs", "pocket", "train", ".lock"}


def test_help_shows_the_model_that_is_chosen():
    assert "name: lumina" in help_text("train", ["+model=lumina", "--help"])
    with pytest.raises(RowcastError, match="unknown model 'lumiere': choose model= one of"):
        help_text("train", ["model=lumiere"])
