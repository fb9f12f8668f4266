"""What `python -m train` refuses before it samples a single image."""

import pytest

from backbones.errors import RowcastError
from tests.train.session import job
from train import run
from train.__main__ import benchmark_prompts, main

pytestmark = pytest.mark.unit


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("a house by a lake\n")
    return path


def refused(folder, *overrides):
    """The message; the rollouts' folder must not have been made."""
    words = ["model.device=cpu", f"rollouts.folder={folder}/rollouts", *overrides]
    with pytest.raises(RowcastError) as caught:
        main(job(folder / "run", *words))
    assert not (folder / "rollouts").exists()
    return str(caught.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("benchmark.decoders=[ar,foo]", "unknown decoder 'foo'"),
        ("benchmark.decoders=[]", "expected ar among the decoders, found none"),
        ("benchmark.decoders=[ssd]", "expected ar among the decoders, found ssd"),
        ("benchmark.prompts=nowhere.txt", "nowhere.txt"),
        ("benchmark.prompts={prompts}", "a house by a lake"),
        ("folder={prompts}/run", "expected to write to"),
        ("resume=step-000002.ckpt", "expected a checkpoint such as"),
    ],
)
def test_mistakes_are_found_before_any_work(tmp_path, prompts, override, message):
    assert message in refused(tmp_path, override.format(prompts=prompts))


def test_a_key_that_is_missing_is_found_before_any_work(tmp_path, monkeypatch):
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "wandb login" in refused(tmp_path, "wandb.mode=online")


def test_starting_anew_leaves_a_live_run_alone(tmp_path):
    with run.occupied(tmp_path / "run"):
        run.enter(tmp_path / "run", {}, "")
        assert "only process that writes" in refused(tmp_path, "resume=false")
    assert (tmp_path / "run" / run.CONTRACT).exists()


def test_prompts_of_the_benchmark(tmp_path, prompts):
    """Those of the rollouts may be beyond the judge of a model that has one."""
    given = f"rollouts.prompts={prompts}"
    assert benchmark_prompts(job(tmp_path, given)) is None
    assert benchmark_prompts(job(tmp_path, given, "model=janus")) == str(prompts)
    assert benchmark_prompts(job(tmp_path, given, "benchmark.prompts=own.txt")) == "own.txt"
