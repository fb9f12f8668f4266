"""What a run says of its data, from its metrics file; in words, in a file, on the report's page."""

import json

import numpy as np
import pytest

from backbones.errors import RowcastError
from eval.learning import keep_learning, learning_section
from train.learning import LEARNING, SCHEMA, conclude, image_row
from train.loggers import MetricsFile

pytestmark = pytest.mark.unit


def run(folder, *, gap=0.0, power=1.0, last_epoch=6.0, points=5, images=8):
    """A run's metrics: held-out acceptance on a power law, that of rollouts `gap` above it after step 0."""
    folder.mkdir(parents=True, exist_ok=True)
    log, rng = MetricsFile(folder, None), np.random.default_rng(0)
    hard = {name: rng.normal(0, 0.05, images) for name in ("held_out", "seen")}
    for point in range(points):
        done = 320.0 * point
        growth = 0.3 - 0.2 * max(1, point) ** -power if point else 0.0
        values = {"images_trained_on": done, "epochs": last_epoch * point / (points - 1)}
        for name, offsets in hard.items():
            mean = 0.2 + growth + (gap if point and name == "seen" else 0.0)
            values |= {image_row(name, i): mean + offset for i, offset in enumerate(offsets)}
        log.log_metrics(values, 160 * point)
    return folder


def test_a_gap_calls_for_more_rollouts(tmp_path):
    learning = conclude(run(tmp_path, gap=0.1, power=2.0), 192)
    assert learning.gap.value == pytest.approx(0.1, abs=0.01)
    assert learning.more_rollouts.value == pytest.approx(0.025, abs=0.003)
    assert learning.conclusion.endswith("raise rollouts.images")
    assert "twice the rollouts +0.025" in learning.conclusion
    assert json.loads((tmp_path / LEARNING).read_text())["schema"] == SCHEMA


def test_a_rising_curve_calls_for_more_steps(tmp_path):
    learning = conclude(run(tmp_path, power=0.4), 192)
    assert learning.curve.gain.low > 0.01
    assert learning.conclusion.endswith("raise trainer.steps")


def test_neither_pays_once_all_is_flat(tmp_path):
    assert "neither gains" in conclude(run(tmp_path, power=0.0), 192).conclusion


def test_within_the_first_epoch_rollouts_are_not_the_limit(tmp_path):
    learning = conclude(run(tmp_path, last_epoch=0.8), 10_000)
    assert learning.gap is None
    assert "more rollouts nothing by themselves (0.80 passes" in learning.conclusion


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"points": 4}, "validations 3 of at least 4, lower trainer.validate_every"),
        ({"images": 3}, "cannot tell: trainer.validation_images must be at least 4"),
    ],
)
def test_too_little_says_so_instead_of_a_number(tmp_path, given, reason):
    learning = conclude(run(tmp_path, **given), 192)
    assert learning.curve is None
    assert reason in learning.conclusion


def test_nothing_after_the_first_step(tmp_path):
    run(tmp_path)
    head = [line for line in (tmp_path / "metrics.csv").read_text().splitlines() if line[0] in "s0"]
    (tmp_path / "metrics.csv").write_text("\n".join(head) + "\n")
    assert "cannot tell: no validation after the first step" in conclude(tmp_path, 192).conclusion


def test_the_report_shows_it_and_forgets_it_with_other_heads(tmp_path):
    conclude(run(tmp_path / "run", gap=0.1), 192)
    report = tmp_path / "benchmark"
    keep_learning({"ssd": tmp_path / "run" / "heads"}, report)
    page = learning_section(report)
    assert page.count("<circle") == 8
    assert all(text in page for text in ("enough data?", "<h3>ssd heads</h3>", 'class="band"', "1,280"))
    keep_learning({"ssd": tmp_path / "elsewhere" / "heads"}, report)
    assert learning_section(report) is None


def test_a_short_run_is_shown_without_a_curve(tmp_path):
    conclude(run(tmp_path / "run", points=2), 192)
    keep_learning({"mtp": tmp_path / "run" / "heads"}, tmp_path)
    page = learning_section(tmp_path)
    assert page.count("<circle") == 2
    assert 'class="band"' not in page


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": 99}'])
def test_a_strange_file_is_named(tmp_path, content):
    (tmp_path / LEARNING).write_text(content)
    with pytest.raises(RowcastError, match="expected what training writes"):
        keep_learning({"ssd": tmp_path / "heads"}, tmp_path / "benchmark")


def test_what_is_in_the_file_is_escaped(tmp_path):
    learning = json.loads(json.dumps({"schema": SCHEMA, "validations": [], "fair_gaps": [], "curve": None}))
    (tmp_path / LEARNING).write_text(json.dumps({"<b>": learning | {"conclusion": "<script>"}}))
    page = learning_section(tmp_path)
    assert "<script>" not in page
    assert "<b>" not in page
