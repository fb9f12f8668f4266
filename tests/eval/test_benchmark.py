"""The whole benchmark on the tiny backbone: what it counts, pairs, resumes and prints."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from backbones.contract import Sampling
from backbones.durable import only_writer
from backbones.errors import RowcastError
from decoding.engine import generate
from decoding.methods import build_method
from decoding.noise import Noise
from eval.bench import Bench, Plan
from eval.likelihood import likelihoods
from eval.passes import profile_pass, speed_pass
from eval.report import headline_decoder
from eval.samples import SampleLog
from eval.summary import summarise
from eval.table import json_line, terminal_table
from tests.backbones.tiny import tiny_backbone
from tests.eval.tiny import OPTIONS, PROMPTS, run_tiny, tiny_bank, tiny_items


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmark")
    return run_tiny(folder), folder


def records(folder: Path) -> list[dict]:
    [path] = folder.glob("samples-*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def images(folder: Path) -> dict[tuple, dict]:
    found = [record["image"] for record in records(folder) if "image" in record]
    keyed = {(i["decoder"], i["prompt"], i["sample"], i["role"]): i for i in found}
    assert len(keyed) == len(found), "an image was painted twice"
    return keyed


@pytest.mark.unit
def test_one_benchmark_at_a_time(tmp_path):
    with only_writer(tmp_path, "folder="), pytest.raises(RowcastError, match="only process that writes to"):
        run_tiny(tmp_path)
    assert not list(tmp_path.glob("samples-*"))


@pytest.mark.unit
def test_counts_and_laws(run):
    results, folder = run
    ar, ssd, ssd_r0, ssd_exact = results.decoders
    assert [d.lossless for d in results.decoders] == [True, False, False, True]
    assert ar.forwards == 12
    assert ssd.forwards == 1 + 2 * 2 + 2 * 3
    assert ssd_r0.forwards == 1 + 2 * 2 + 2
    assert 1 < ssd_exact.forwards <= 12
    assert ssd_r0.step_compression == pytest.approx(12 / 7)
    assert ar.speedup.value == 1
    assert ar.quality.nll_delta.value == 0
    assert results.control.nll_delta.value != 0
    assert len(images(folder)) == 5 * 6
    assert sum(image["latency"] is not None for image in images(folder).values()) == 4 * 3


@pytest.mark.unit
def test_images_are_those_of_the_engine_and_the_second_seed_differs(run):
    found = images(run[1])
    backbone = tiny_backbone()
    method = build_method("ar", {}, tiny_bank())
    made = generate(backbone, [PROMPTS[0]], method, Noise(7, [PROMPTS[0]], [1]), backbone.sampling)
    assert found["ar", PROMPTS[0], 1, "main"]["tokens"] == made.tokens[0].tolist()
    assert found["ar", PROMPTS[0], 1, "control"]["tokens"] != made.tokens[0].tolist()


@pytest.mark.unit
def test_acceptance_and_changes_agree_with_the_trace(run):
    results, _ = run
    backbone = tiny_backbone()
    settings = {key: value for key, value in OPTIONS["ssd"].items() if key != "name"}
    method = build_method("ssd", settings, tiny_bank())
    items = tiny_items(6)
    prompts, samples = [item.prompt.text for item in items], [item.sample for item in items]
    trace = generate(backbone, prompts, method, Noise(7, prompts, samples), backbone.sampling).trace
    ssd = results.decoders[1]
    assert {label: tuple(counts) for label, counts in ssd.acceptance.items()} == trace.acceptance()
    assert ssd.changed == pytest.approx(trace.changed_fraction())


@pytest.mark.unit
@pytest.mark.parametrize(("guidance", "temperature"), [(2.0, 1.0), (2.0, 0.5), (1.0, 1.0)])
def test_likelihood_is_what_the_engine_multiplied(guidance, temperature):
    """Fed token by token, the laws that the session itself reports give the same likelihood."""
    backbone = tiny_backbone()
    method, noise = build_method("ar", {}, tiny_bank()), Noise(0, ["a hat"], [0])
    tokens = generate(backbone, ["a hat"], method, noise, backbone.sampling).tokens
    sampling = Sampling(guidance=guidance, temperature=temperature, top_k=2)
    step = backbone.begin(backbone.encode(["a hat"]))
    guided = plain = 0.0
    for token in tokens[0]:
        conditional, unconditional = step.logits[:, -1].double()
        mixed = unconditional + guidance * (conditional - unconditional)
        guided -= (mixed / temperature).log_softmax(-1)[token].item() / 12
        plain -= conditional.log_softmax(-1)[token].item() / 12
        step = backbone.forward(token.view(1, 1))
    [found] = likelihoods(backbone, ["a hat"], tokens, sampling)
    assert found.guided == pytest.approx(guided, abs=1e-4)
    assert found.conditional == pytest.approx(plain, abs=1e-4)
    [shifted] = likelihoods(backbone, ["a hat"], tokens.roll(1, 1), sampling)
    assert shifted.guided > guided + 0.5


@pytest.mark.unit
def test_second_run_paints_nothing_and_more_images_paint_the_rest(tmp_path):
    run_tiny(tmp_path, images=2, quality=3)
    before = records(tmp_path)
    first = run_tiny(tmp_path, images=2, quality=3)
    assert records(tmp_path) == before
    assert first.sessions == 1
    more = run_tiny(tmp_path, images=3, quality=3)
    assert records(tmp_path)[: len(before)] == before
    assert more.sessions == 2
    assert any("2 starts" in line for line in terminal_table(more).splitlines())


@pytest.mark.unit
def test_profiled_images_take_over_the_phases_and_nothing_else(tmp_path):
    backbone, bank = tiny_backbone(), tiny_bank()
    log = SampleLog(tmp_path, {})
    plan = Plan(images=2, quality_images=0, warm_up=0, seed=7)
    bench = Bench(
        backbone=backbone,
        decoders={"ar": build_method("ar", {}, bank)},
        baseline="ar",
        sampling=backbone.sampling,
        plan=plan,
        items=tiny_items(3),
        log=log,
        session=1,
    )
    speed_pass(bench)
    [timed] = summarise(bench, OPTIONS)[0]
    profile_pass(bench)
    profiled = [image for image in log.images.values() if image.role == "profile"]
    [found] = summarise(bench, OPTIONS)[0]
    assert len(profiled) == 3
    assert profiled[0].tokens == log.images["ar", PROMPTS[0], 0, "main"].tokens
    assert found.seconds["total"] == pytest.approx(sum(image.seconds["total"] for image in profiled) / 3)
    assert (found.latency, found.forwards) == (timed.latency, timed.forwards)


@pytest.mark.unit
def test_other_seed_starts_its_own_log(tmp_path):
    run_tiny(tmp_path, images=1, quality=0, names=("ar",))
    run_tiny(tmp_path, images=1, quality=0, names=("ar",), seed=8)
    assert len(list(tmp_path.glob("samples-*.jsonl"))) == 2


@pytest.mark.unit
def test_without_a_baseline_nothing_starts(tmp_path):
    with pytest.raises(RowcastError, match=r"expected ar among the decoders, found ssd"):
        run_tiny(tmp_path, names=("ssd",))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.unit
def test_table_says_lossy_and_json_parses(run):
    results, folder = run
    lines = terminal_table(results).splitlines()
    laws = [line.split()[1] for line in lines if line.startswith(("ar ", "ssd"))]
    assert laws == 2 * ["lossless", "lossy", "lossy", "lossless"]
    line = json_line(results, folder / "report.html")
    assert "\n" not in line
    assert json.loads(line)["decoders"]["ssd"]["lossless"] is False
    whole = json.loads((folder / "results.json").read_text())
    assert whole["schema"] == 3
    assert {"speedup", "latency", "nll", "engine_ratio"} <= set(whole["definitions"])
    assert whole["decoders"][1]["quality"]["nll"]["n"] == len(PROMPTS)
    delta = whole["decoders"][2]["quality"]["nll_delta"]
    assert delta["margin"] == 0.1
    assert delta["equivalent"] is False
    assert 0 < delta["detectable"] < delta["value"]


@pytest.mark.unit
def test_the_headline_is_lossless_where_it_can_be(run):
    results, _ = run
    assert headline_decoder(results).name == "ssd_exact"
    lossy = [decoder for decoder in results.decoders if decoder.name in ("ar", "ssd", "ssd_r0")]
    nearest = headline_decoder(replace(results, decoders=lossy))
    assert nearest.quality.nll.value == min(decoder.quality.nll.value for decoder in lossy[1:])


@pytest.mark.integration
def test_killed_and_started_again_equals_an_uninterrupted_run(tmp_path):
    count, folder = 4, tmp_path / "killed"
    command = [sys.executable, "-m", "tests.eval.tiny", str(folder), str(count)]
    child = subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while sum(path.read_bytes().count(b"\n") for path in folder.glob("samples-*")) < 6:
        assert child.poll() is None, "the benchmark ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    [path] = folder.glob("samples-*")
    left = path.read_bytes().rpartition(b"\n")[0]
    assert not (folder / "results.json").exists()
    resumed = run_tiny(folder, images=count, quality=count)
    whole = run_tiny(tmp_path / "whole", images=count, quality=count)
    assert path.read_bytes().startswith(left)
    assert resumed.sessions == 2
    assert whole.sessions == 1
    killed, straight = images(folder), images(tmp_path / "whole")
    assert {key: image["tokens"] for key, image in killed.items()} == {
        key: image["tokens"] for key, image in straight.items()
    }
    assert [d.quality for d in resumed.decoders] == [d.quality for d in whole.decoders]
