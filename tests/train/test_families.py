"""The whole job on a tiny checkpoint of every model family, by the command for the real one."""

import json

import pytest

from checkpoints.config import read_config
from tests.backbones.checkpoints.families import SUBJECTS
from tests.train.test_command import finish, start

pytestmark = pytest.mark.integration

OPTIONS = [
    "rollouts.images=2",
    "trainer.steps=2",
    "benchmark.decoders=[ar,ssd,ssd_exact,mc_sjd]",
    "benchmark.images=1",
    "benchmark.quality_images=2",
    "heads.horizontal=3",
]


@pytest.mark.parametrize("name", [name for name in SUBJECTS if name not in ("pocket", "janus_1b")])
def test_the_job_runs_to_its_end(name, tmp_path):
    checkpoint, prompts = tmp_path / "checkpoint", tmp_path / "prompts.txt"
    checkpoint.mkdir()
    words = [f"model.{option}={value}" for option, value in SUBJECTS[name].write(checkpoint).items()]
    # One token a byte: the model's own prompts are too long for a tiny context.
    prompts.write_text("\n".join(SUBJECTS[name].prompts))
    words.append(f"rollouts.prompts={prompts}")
    status, output = finish(start(tmp_path, f"+model={name}", *words, *OPTIONS))
    assert status == 0, output[-3000:]
    assert "0 trained    bfloat16, frozen" in output
    assert "4/4 benchmark" in output
    facts = read_config(tmp_path / "train/heads").backbone
    assert (facts.name, facts.dtype) == (name, "bfloat16")
    results = json.loads((tmp_path / "train/heads/results.json").read_text())
    forwards = {decoder["name"]: decoder["forwards"] for decoder in results["decoders"]}
    assert forwards["ar"] == facts.rows * facts.cols
    assert all(count < forwards["ar"] for name, count in forwards.items() if name == "ssd")
    assert all(decoder["quality"]["nll"]["value"] > 0 for decoder in results["decoders"])
    page = (tmp_path / "train/benchmark/report.html").read_text()
    assert page.count("<figure><img") >= 4
