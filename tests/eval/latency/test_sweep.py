"""The latency sweep on a small backbone: windows tell what a whole image takes, cells survive a kill."""

import csv
import io
import json

import pytest
import torch

from backbones.contract import Grid
from decoding.accounting import has_fixed_count
from decoding.engine import generate
from decoding.methods import build_method
from decoding.noise import Noise
from eval.benchmark import Extras
from eval.latency.bandwidth import copy_rate, weight_bytes
from eval.latency.figures import LatencyPlan
from eval.latency.sweep import Subject, place_windows, sweep
from eval.latency.window import Window
from eval.results import read_results
from eval.table import terminal_table
from heads.bank import HeadBank
from tests.backbones.tiny import tiny_backbone
from tests.eval.tiny import run_tiny

pytestmark = pytest.mark.unit

GRID = Grid(rows=8, cols=4)
PROMPTS = ["a red boat", "two green pears on a plate", "a hat"]
FIRST_ROW = {"block": 2, "rounds": 1}
FIXED = {
    "ar": {"name": "ar"},
    "ssd": {"name": "ssd", "rounds": 2, "first_row": FIRST_ROW},
    "ssd_r0": {"name": "ssd", "rounds": 0, "first_row": FIRST_ROW},
    "fused": {"name": "ssd", "rounds": 2, "schedule": "fused", "first_row": FIRST_ROW},
    "pipeline": {
        "name": "ssd",
        "rounds": 2,
        "schedule": "pipeline",
        "corrections": 2,
        "first_row": FIRST_ROW,
    },
    "zipar": {"name": "zipar", "window": 2},
}
DRAWN = {
    "ssd_exact": {"name": "ssd_exact", "window": 6},
    "eagle": {"name": "eagle", "depth": 2, "children": 2, "nodes": 4},
}


def methods(backbone, options):
    from heads.eagle import EagleDrafter

    torch.manual_seed(0)
    heads = {"ssd": HeadBank(backbone.width, horizontal=3, vertical=2)}
    heads["eagle"] = EagleDrafter(backbone.width, attention_heads=2)
    kinds = {"ssd": "ssd", "ssd_exact": "ssd", "eagle": "eagle"}
    return {
        name: build_method(
            chosen["name"],
            {key: value for key, value in chosen.items() if key != "name"},
            heads.get(kinds.get(chosen["name"], "")),
        )
        for name, chosen in options.items()
    }


def subject(backbone, options):
    return Subject(
        backbone=backbone,
        decoders=methods(backbone, options),
        sampling=backbone.sampling,
        prompts=PROMPTS,
        seed=3,
    )


@pytest.fixture(scope="module")
def swept():
    backbone = tiny_backbone(rows=GRID.rows, cols=GRID.cols, row_end=True)
    options = FIXED | DRAWN
    fixed = [name for name, chosen in options.items() if has_fixed_count(GRID, chosen)]
    plan = LatencyPlan(batches=[1, 4], rows=2, repeats=2, seconds=1e-6)
    return backbone, sweep(subject(backbone, options), plan, fixed=fixed)


def test_forwards_of_windows_give_those_of_an_image(swept):
    backbone, latency = swept
    assert set(latency.fixed) == set(FIXED)
    assert (latency.first_row, latency.windows) == (1, (2, 4))
    for name, method in methods(backbone, FIXED).items():
        whole = generate(backbone, PROMPTS[:1], method, Noise(3, PROMPTS[:1], [0]))
        for batch in (1, 4):
            assert latency.cell(name, batch).forwards == whole.trace.forwards, (name, batch)


def test_a_window_is_the_same_image_half_way_down():
    backbone = tiny_backbone(rows=GRID.rows, cols=GRID.cols, row_end=True)
    window = Window(backbone, PROMPTS[:2], guided=True, first=2)
    window.rows = 3
    painted = [
        generate(window, PROMPTS[:2], method, Noise(3, PROMPTS[:2], [0, 0])).tokens
        for method in methods(backbone, {"ar": FIXED["ar"], "again": FIXED["ar"]}).values()
    ]
    assert torch.equal(*painted), "the second painting starts where the first did"
    # Teacher-forced over a whole image, the same codes have the states that the window's session has.
    generator = torch.Generator().manual_seed(0)
    above = torch.cat([torch.randint(backbone.codes, (2, 4), generator=generator) for _ in range(2)], 1)
    rest = torch.zeros(2, GRID.size - 8 - 12, dtype=torch.long)
    states = backbone.states(backbone.encode(PROMPTS[:2]), torch.cat([above, painted[0], rest], 1))
    live = window.begin(window.encode(PROMPTS[:2]))
    torch.testing.assert_close(live.hidden[:, 0], states[:, 8], rtol=1e-4, atol=1e-4)
    step = window.forward(painted[0][:, :4])
    torch.testing.assert_close(step.hidden, states[:, 9:13], rtol=1e-4, atol=1e-4)
    assert window.length == 4


def test_bytes_that_a_forward_reads(swept):
    backbone, latency = swept
    tables = sum(p.numel() for n, p in backbone.parts["trunk"].named_parameters() if "embed_tokens" in n)
    weights = sum(p.numel() for part in ("trunk", "norm", "head") for p in backbone.parts[part].parameters())
    assert latency.weight_bytes == 4 * (weights - tables) == weight_bytes(backbone.parts)
    # Two layers, two heads of keys and values of width/4: of two branches, a prompt of 4, rows of 5 slots.
    token = 2 * 2 * 2 * (backbone.width // 4) * 4
    single, several = (latency.cell("ar", batch).bytes_read - latency.weight_bytes for batch in (1, 4))
    least, most = (2 * token * (4 + 5 * rows) for rows in (latency.first_row, latency.first_row + 5))
    assert least < single < most
    assert several > 4 * single, "four images, and longer prompts among them"


def test_one_image_at_a_time_is_said(swept):
    _, latency = swept
    assert {(entry.decoder, entry.batch) for entry in latency.skipped} == {("ssd_exact", 4), ("eagle", 4)}
    assert latency.cell("ssd_exact", 1) is not None
    assert latency.cell("eagle", 1) is not None
    for cell in latency.cells:
        assert sum(cell.phases.values()) == pytest.approx(1)
        assert cell.latency.n == 1, "timed again only while it has taken less than the plan allows"
        assert cell.peak_bytes is None


def test_windows_lie_half_way_down_and_fit_into_low_images():
    place = place_windows(Grid(rows=90, cols=90), 3)
    assert (place.first, place.short, place.long) == (41, 3, 5)
    assert place.image(3.0, 5.0) == 90
    low = place_windows(Grid(rows=2, cols=4), 3)
    assert (low.first, low.short, low.long) == (0, 1, 2)
    assert place_windows(Grid(rows=4, cols=4), 3).long == 4


def test_the_rate_of_a_copy_is_a_rate():
    rate, copied = copy_rate(torch.device("cpu"))
    assert copied >= 2**20
    assert 1e8 < rate < 1e13


def test_the_benchmark_keeps_shows_and_reads_the_sweep(tmp_path):
    plan = LatencyPlan(batches=[1, 2], rows=1, repeats=1)
    extras = Extras(latency=plan, untrained=["heads"])
    names = ("ar", "ssd_r0", "ssd_exact")
    results = run_tiny(tmp_path, images=1, quality=0, names=names, extras=extras)
    assert read_results(tmp_path) == results
    text = terminal_table(results)
    assert "ssd_exact *" in text
    assert "acceptance untrained: the row says nothing" in text
    assert "not measured, paints one image at a time: ssd_exact at 2" in text
    rows = list(csv.DictReader(io.StringIO((tmp_path / "latency.csv").read_text())))
    assert [(row["decoder"], row["batch"]) for row in rows] == [
        ("ar", "1"), ("ssd_r0", "1"), ("ssd_exact", "1"), ("ar", "2"), ("ssd_r0", "2"),
    ]  # fmt: skip
    assert float(rows[0]["speedup"]) == 1
    for name in ("report.html", "table.md"):
        assert "of floor" in (tmp_path / name).read_text()
    assert "Latency over batch sizes" in (tmp_path / "report.html").read_text()

    again = run_tiny(tmp_path, images=1, quality=0, names=names, extras=extras)
    assert again.latency.cells == results.latency.cells, "what was measured once is kept"
    more = Extras(latency=LatencyPlan(batches=[2, 3], rows=1, repeats=1))
    wider = run_tiny(tmp_path, images=1, quality=0, names=names, extras=more)
    assert wider.latency.cell("ar", 2) == results.latency.cell("ar", 2)
    assert wider.latency.cell("ar", 3) is not None
    assert wider.latency.cell("ar", 1) is None
    [kept] = tmp_path.glob("latency-*.json")
    assert {cell["batch"] for cell in json.loads(kept.read_text())["cells"]} == {1, 2, 3}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_memory_is_counted_and_phases_add_up():
    backbone = tiny_backbone(rows=GRID.rows, cols=GRID.cols, row_end=True).to("cuda")
    methods_there = methods(backbone, {name: FIXED[name] for name in ("ar", "ssd")})
    methods_there["ssd"].heads.to("cuda")
    there = Subject(
        backbone=backbone, decoders=methods_there, sampling=backbone.sampling, prompts=PROMPTS, seed=3
    )
    latency = sweep(there, LatencyPlan(batches=[1, 8], repeats=1), fixed=["ar", "ssd"])
    assert latency.copy_rate > 5e10
    for name in ("ar", "ssd"):
        one, eight = (latency.cell(name, batch) for batch in (1, 8))
        assert latency.weight_bytes < one.peak_bytes < eight.peak_bytes
        assert eight.phases["forward"] > 0.2
