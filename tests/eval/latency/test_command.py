"""`python -m eval suite=latency`: its options, what it refuses, and a run without any weights."""

import json
from pathlib import Path

import pytest

from backbones.contract import Grid
from backbones.errors import RowcastError
from conf.check import typed
from conf.decoders import decoder_options
from conf.schema import EvalJob
from decoding.accounting import has_fixed_count
from eval.job import check, run
from tests.eval.test_options import composed

pytestmark = pytest.mark.integration


def job(*words):
    return typed(composed("eval", "suite=latency", *words), EvalJob)


def test_the_suite_is_speed_alone_with_decoders_that_need_no_training():
    suite = job("+model=emu3", "weights=random")
    assert suite.latency.batches == [1, 2, 4, 8]
    assert (suite.benchmark.quality_images, suite.ladder, suite.heads) == (0, 0, "untrained")
    assert suite.folder == "outputs/emu3/latency"
    grid = Grid(rows=90, cols=90)
    assert all(has_fixed_count(grid, decoder_options(name)) for name in suite.benchmark.decoders)
    assert len(check(suite).items) == 8, "a prompt for every image of the largest batch"
    assert typed(composed("eval"), EvalJob).latency.batches == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["benchmark.quality_images=8"],
            "expected trained heads for 8 quality images, found heads=untrained",
        ),
        (["shard=1/2"], "expected one process for the latency sweep, found part 1/2: set shard=1/1"),
        (["latency.batches=[1,1]"], "option latency.batches: expected batch sizes of 1 to 1024, each once"),
        (["latency.batches=[0]"], "option latency.batches: expected batch sizes"),
        (["latency.rows=0"], "option latency.rows: expected 1 to 1000"),
    ],
)
def test_mistakes(words, message):
    with pytest.raises(RowcastError, match=message.replace("[", r"\[")):
        check(job(*words))


def test_a_run_without_weights_says_so_everywhere(tmp_path, capsys):
    few = ["latency.batches=[1]", "latency.rows=1", "latency.repeats=1", "benchmark.decoders=[ar,ssd_r0]"]
    report = run(job("weights=random", *few, f"folder={tmp_path / 'out'}"))
    text = capsys.readouterr().out
    last = json.loads(text.strip().splitlines()[-1])
    assert last["untrained"] == ["weights", "heads"]
    assert set(last["images_per_s"]) == {"ar", "ssd_r0"}
    assert "untrained weights and heads: for timing alone" in text
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["suite"] == "latency"
    assert results["latency"]["cells"][0]["forwards"] == 256
    assert "Untrained weights and heads" in Path(report).read_text()
