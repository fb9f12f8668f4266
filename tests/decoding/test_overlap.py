"""SSD beyond the paper: rows that share forwards, rounds that stop early, relaxed tests, corrected drafts."""

from dataclasses import replace

import pytest
import torch

from backbones.contract import Grid
from backbones.errors import RowcastError
from decoding.accounting import expected_forwards, forward_bounds
from decoding.engine import generate
from decoding.methods import build_method
from decoding.methods.schedule import schedule
from decoding.methods.ssd import SSD
from decoding.noise import Noise
from decoding.options import parse_options
from tests.backbones.coordinates import CoordinateBackbone
from tests.backbones.tiny import tiny_backbone
from tests.decoding.banks import CoordinateBank, OracleBank, random_bank
from tests.decoding.test_rules import RELAXED

pytestmark = pytest.mark.unit

PROMPTS = ["red shoe", "a very green coat on white"]
GRIDS = [Grid(rows=r, cols=c) for r, c in ((1, 7), (5, 1), (2, 2), (3, 5), (4, 6), (6, 4))]
OVERLAPS = [{"schedule": name, "rounds": rounds} for name in ("fused", "pipeline") for rounds in (1, 2, 4)]
FULL = {"rounds": 15, "first_row": {"block": 5, "rounds": 5}}
"""As many rounds as there are tokens: a position is exact one forward after all before it at the latest."""


def run(backbone, options, bank=None, temperature=1.0, prompts=PROMPTS, samples=None, seed=0):
    method = build_method("ssd", options, bank or random_bank(backbone.width))
    noise = Noise(seed, prompts, samples or [0] * len(prompts))
    return generate(backbone, prompts, method, noise, replace(backbone.sampling, temperature=temperature))


@pytest.mark.parametrize("options", OVERLAPS, ids=str)
def test_every_row_is_drafted_once_judged_in_every_round_and_committed_later(options):
    for grid in GRIDS:
        parsed = build_method("ssd", options, random_bank(2)).options
        cached, end, judged, fed = 0, 0, [0] * grid.size, [0] * grid.size
        for step in schedule(grid, parsed):
            end += step.exact
            for source in step.sources:
                for position in range(source.start, source.stop):
                    assert fed[position - 1] or position == 0, "a draft leans on a state, provisional or not"
                    assert end == position + source.offset.down * grid.cols + source.offset.right
                    end += 1
            assert cached <= step.cached <= step.final <= end
            for position in range(cached, end):
                fed[position] += 1
                judged[position] += position >= step.final
            cached = step.cached
        assert end == grid.size
        assert len(schedule(grid, parsed)) + 1 == expected_forwards(grid, "ssd", options)
        assert set(judged[grid.cols :]) <= {options["rounds"]}
        assert cached == max(1, grid.rows - 1) * grid.cols, "all but the last row are committed"


@pytest.mark.parametrize(
    ("rows", "cols", "options", "count"),
    [
        (24, 24, {"schedule": "fused"}, 57),
        (24, 24, {"schedule": "pipeline"}, 35),
        (16, 16, {"schedule": "fused", "rounds": 1}, 22),
        (16, 16, {"schedule": "pipeline", "rounds": 4}, 25),
    ],
)
def test_counts_in_closed_form(rows, cols, options, count):
    assert expected_forwards(Grid(rows=rows, cols=cols), "ssd", options) == count


@pytest.mark.parametrize("row_end", [False, True])
@pytest.mark.parametrize("options", OVERLAPS, ids=str)
def test_counter_equals_the_promise(options, row_end):
    backbone = tiny_backbone(4, 5, row_end=row_end)
    assert run(backbone, options).trace.forwards == expected_forwards(backbone.grid, "ssd", options)


@pytest.mark.parametrize(("rows", "cols"), [(3, 5), (4, 3), (1, 7), (6, 1)])
@pytest.mark.parametrize("row_end", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "fused"},
        {"schedule": "pipeline"},
        {"early_stop": True},
        {"corrections": 2},
        {"corrections": 2, "early_stop": True, "schedule": "fused"},
    ],
    ids=str,
)
def test_greedy_with_enough_rounds_equals_autoregression(rows, cols, row_end, options):
    backbone = tiny_backbone(rows, cols, row_end=row_end)
    noise = Noise(0, PROMPTS, [0, 0])
    sampling = replace(backbone.sampling, temperature=0.0)
    exact = generate(backbone, PROMPTS, build_method("ar", {}, None), noise, sampling)
    for correction in (0.0, 1.0) if "corrections" in options else (0.0,):
        bank = random_bank(backbone.width, correction=correction)
        drafted = run(backbone, {**FULL, **options}, bank, temperature=0.0)
        assert torch.equal(drafted.tokens, exact.tokens)


@pytest.mark.parametrize("options", OVERLAPS, ids=str)
@pytest.mark.parametrize(("rows", "cols", "row_end", "header"), [(4, 7, False, 1), (5, 3, True, 2)])
@pytest.mark.parametrize("columns", [1, 3])
def test_every_pair_and_target_is_the_right_cell(rows, cols, row_end, header, options, columns):
    backbone = CoordinateBackbone(rows, cols, row_end, header)
    bank = CoordinateBank(cols=cols if columns == 3 else None)
    done = run(backbone, options, bank, temperature=0.0)
    assert done.tokens.tolist() == [list(range(rows * cols))] * len(PROMPTS)
    assert sorted(bank.targets) == [(y, x) for y in range(rows) for x in range(cols)][1:]


@pytest.mark.parametrize(
    "options",
    [
        {"corrections": 2},
        {"rows": 2},
        {"rows": 2, "staged_rounds": 2, "corrections": 2},
        {"schedule": "fused"},
        {"schedule": "fused", "corrections": 2},
    ],
    ids=str,
)
def test_early_stop_paints_the_same_image_in_fewer_forwards(options):
    backbone = tiny_backbone(5, 4)
    options = {**options, "rounds": 7}
    saved = 0
    for seed in range(2):
        full, stopped = (run(backbone, {**options, "early_stop": stop}, seed=seed) for stop in (False, True))
        assert torch.equal(full.tokens, stopped.tokens)
        least, most = forward_bounds(backbone.grid, "ssd", {**options, "early_stop": True})
        assert least <= stopped.trace.forwards <= full.trace.forwards == most
        saved += full.trace.forwards - stopped.trace.forwards
    assert saved > 0


def test_early_stop_with_true_states_takes_one_forward_a_block():
    backbone = tiny_backbone(4, 5)
    noise = Noise(0, PROMPTS, [0, 0])
    sampling = replace(backbone.sampling, temperature=0.0)
    exact = generate(backbone, PROMPTS, build_method("ar", {}, None), noise, sampling).tokens
    oracle = OracleBank(backbone.states(backbone.encode(PROMPTS), exact))
    oracle.cols = 5
    for options in ({"rounds": 3}, {"rounds": 3, "schedule": "fused"}, {"rounds": 2, "rows": 2}):
        stopping = {**options, "early_stop": True}
        done = run(backbone, stopping, oracle, temperature=0.0)
        assert torch.equal(done.tokens, exact)
        assert done.trace.forwards == forward_bounds(backbone.grid, "ssd", stopping)[0]


@pytest.mark.parametrize("schedule_name", ["rows", "fused"])
def test_early_stop_leaves_exact_states(schedule_name):
    class Witness(SSD):
        def propose(self, session):
            self.session = session
            return super().propose(session)

    backbone = tiny_backbone(5, 4, row_end=True)
    options = parse_options("ssd", {"rounds": 6, "early_stop": True, "schedule": schedule_name})
    method = Witness(options, random_bank(backbone.width))
    tokens = generate(backbone, PROMPTS, method, Noise(0, PROMPTS, [0, 0])).tokens
    truth, kept = backbone.states(backbone.encode(PROMPTS), tokens), method.session.cached
    assert kept >= 4 * 4
    assert (method.session.states[:, :kept] - truth[:, :kept]).abs().max() < 1e-5


@pytest.mark.parametrize("measure", ["changed", "distance"])
def test_adaptive_rounds_lie_between_one_and_all(measure):
    backbone = tiny_backbone(5, 4)
    options = {"rounds": 5, "first_row": {"rounds": 5}, "adaptive": measure}
    counts = []
    for threshold in (0.0, 0.3, 1.0):
        settings = {**options, "threshold": threshold}
        least, most = forward_bounds(backbone.grid, "ssd", settings)
        counts.append(run(backbone, settings).trace.forwards)
        assert least <= counts[-1] <= most
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] == least, "everything may change, so one round is enough"


def test_adaptive_rounds_wait_for_the_worst_image():
    backbone = tiny_backbone(5, 4)
    options = {"rounds": 6, "adaptive": "changed", "threshold": 0.2}
    together = run(backbone, options).trace.forwards
    alone = [run(backbone, options, prompts=[prompt], samples=[0]).trace.forwards for prompt in PROMPTS]
    assert together >= max(alone)


@pytest.mark.parametrize("options", [*OVERLAPS[1:5:3], {"corrections": 2}], ids=str)
def test_an_image_does_not_depend_on_its_batch(options):
    backbone = tiny_backbone()
    together = run(backbone, options).tokens
    alone = torch.cat([run(backbone, options, prompts=[prompt], samples=[0]).tokens for prompt in PROMPTS])
    assert torch.equal(together, alone)


@pytest.mark.parametrize("rule", RELAXED)
def test_relaxed_tests_keep_more_drafts(rule):
    backbone = tiny_backbone(6, 6)
    strict, relaxed = (
        run(backbone, {"rule": {"name": name, **settings}}).trace
        for name, settings in (("strict", {}), (rule, RELAXED[rule]))
    )
    assert sum(strict.changed_fraction()) > sum(relaxed.changed_fraction())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "fused", "rounds": 0}, "rounds of at least 1 with schedule=fused, found 1 and 0"),
        ({"schedule": "pipeline", "rows": 2}, "rows=1 and .* with schedule=pipeline, found 2 and 2"),
        ({"schedule": "pipeline", "early_stop": True}, "found True and none: set decoder.schedule=fused"),
        ({"schedule": "pipeline", "adaptive": "changed"}, "found False and changed"),
        ({"schedule": "diagonal"}, "decoder.schedule: expected one of rows, fused, pipeline"),
        ({"adaptive": "entropy"}, "decoder.adaptive: expected one of none, changed, distance"),
        ({"threshold": 2.0}, "decoder.threshold: expected 0 to 1, found 2.0"),
    ],
)
def test_what_does_not_go_together_is_refused(options, message):
    with pytest.raises(RowcastError, match=message):
        parse_options("ssd", options)


def test_a_count_that_may_stop_early_is_not_promised():
    grid = Grid(rows=16, cols=16)
    for options in ({"early_stop": True}, {"adaptive": "changed"}):
        with pytest.raises(RowcastError, match="count its trace instead"):
            expected_forwards(grid, "ssd", options)
    assert forward_bounds(grid, "ssd", {"early_stop": True}) == (19, 52)
    assert forward_bounds(grid, "ssd", {"adaptive": "changed"}) == (37, 52)
