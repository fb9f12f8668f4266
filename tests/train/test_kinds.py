"""`python -m train heads=...` as a user runs it: heads of another kind, their bundle and their benchmark."""

import json

import pytest

from tests.backbones.checkpoints.families import SUBJECTS
from tests.process import run_module

pytestmark = pytest.mark.integration

SMOKE = [
    "rollouts.images=2",
    "rollouts.batch=2",
    "trainer.steps=2",
    "trainer.batch=1",
    "trainer.validation_images=1",
    "benchmark.images=1",
    "benchmark.warm_up=0",
    "benchmark.quality_images=0",
    "wandb.mode=disabled",
]


def command(program, *words):
    return run_module(program, *words, timeout=280)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kinds")


@pytest.fixture(scope="module")
def model(folder):
    """A tiny checkpoint: a whole image of it takes a sixteenth of the pocket model's forwards."""
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    options = SUBJECTS["janus"].write(checkpoint)
    return ["+model=janus", *(f"model.{name}={value}" for name, value in options.items())]


@pytest.fixture(scope="module")
def prompts(folder):
    """One token a byte: the model's own prompts are too long for a tiny context."""
    file = folder / "prompts.txt"
    file.write_text("\n".join(SUBJECTS["janus"].prompts))
    return f"rollouts.prompts={file}"


@pytest.mark.parametrize(
    ("kind", "decoders", "refused"),
    [
        ("mtp", ["ar", "mtp", "mtp_strict"], "eagle"),
        ("eagle", ["ar", "eagle", "lantern", "lantern_pp"], "ssd"),
    ],
)
def test_heads_of_another_kind_from_prompt_to_report(folder, model, prompts, kind, decoders, refused):
    """Both kinds learn from the same rollouts; each bundle decodes with its own decoders alone."""
    run, rollouts = folder / kind, folder / "rollouts"
    folders = (f"folder={run}", f"rollouts.folder={rollouts}")
    done = command("train", *model, f"heads={kind}", *SMOKE, prompts, *folders)
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads((run / "heads" / "results.json").read_text())
    assert [decoder["name"] for decoder in results["decoders"]] == decoders
    config = json.loads((run / "heads" / "config.json").read_text())
    assert config["heads"]["name"] == kind
    words = ("prompt=a red sneaker on blue", f"heads={run / 'heads'}", f"out={folder / 'painted.png'}")
    painted = command("decoding", *model, *words, f"decoder={decoders[-1]}")
    assert painted.returncode == 0, painted.stderr
    assert f"1 x {decoders[-1]}" in painted.stdout
    wrong = command("decoding", *model, *words, f"decoder={refused}")
    assert (wrong.returncode, len(wrong.stderr.splitlines())) == (2, 1)
    assert f"for decoder {refused}, found {kind} heads" in wrong.stderr
