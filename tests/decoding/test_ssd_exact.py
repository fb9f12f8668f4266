"""Lossless SSD: equality with autoregression, geometry of the window, cache, counts, one image at a time."""

from dataclasses import replace

import pytest
import torch

from backbones.contract import Grid
from backbones.errors import RowcastError
from decoding.accounting import forward_bounds
from decoding.engine import generate
from decoding.methods import build_method
from decoding.methods.ssd_exact import SSDExact, draft_sources
from decoding.noise import Noise
from decoding.options.ssd import SSDExactOptions
from decoding.paint import paint
from tests.backbones.coordinates import CoordinateBackbone
from tests.backbones.tiny import tiny_backbone
from tests.decoding.banks import CoordinateBank, OracleBank, random_bank
from tests.decoding.broken import CachedDraft, HastyCommit
from tests.decoding.test_rules import RELAXED, ZERO

pytestmark = pytest.mark.unit

PROMPT = "a very green coat on white"


def run(backbone, method, seed=0, temperature=1.0):
    sampling = replace(backbone.sampling, temperature=temperature)
    return generate(backbone, [PROMPT], method, Noise(seed, [PROMPT], [0]), sampling)


def exact(backbone, window, kind=SSDExact, bank=None, corrections=2):
    options = SSDExactOptions(window=window, corrections=corrections)
    return kind(options, bank or random_bank(backbone.width))


def greedy_images(backbone, window, kind=SSDExact, count=4):
    """Whole images by autoregression and by lossless SSD, with different useless heads each."""
    baseline = run(backbone, build_method("ar", {}, None), temperature=0.0).tokens
    for seed in range(count):
        method = exact(backbone, window, kind, random_bank(backbone.width, seed=seed))
        yield baseline, run(backbone, method, seed, temperature=0.0)


@pytest.mark.parametrize(("rows", "cols"), [(3, 5), (4, 3), (1, 7), (6, 1)])
@pytest.mark.parametrize("row_end", [False, True])
def test_greedy_equals_autoregression(rows, cols, row_end):
    backbone = tiny_backbone(rows, cols, row_end=row_end)
    for window in (1, 2, cols + 3, rows * cols + 4):
        least, most = forward_bounds(backbone.grid, "ssd_exact", {"window": window})
        for baseline, painted in greedy_images(backbone, window, count=1):
            assert torch.equal(painted.tokens, baseline)
            assert least <= painted.trace.forwards <= most
            if window == 1:
                assert painted.trace.forwards == most == rows * cols


@pytest.mark.parametrize("kind", [HastyCommit, CachedDraft])
def test_greedy_shows_a_token_committed_or_cached_too_early(kind):
    backbone = tiny_backbone(3, 5)
    assert any(not torch.equal(a, b.tokens) for a, b in greedy_images(backbone, 8, kind))


@pytest.mark.parametrize("row_end", [False, True])
@pytest.mark.parametrize("window", [2, 4, 5])
def test_true_states_as_drafts_commit_a_whole_window_a_forward(window, row_end):
    backbone = tiny_backbone(5, 4, row_end=row_end)
    baseline = run(backbone, build_method("ar", {}, None), temperature=0.0).tokens
    oracle = OracleBank(backbone.states(backbone.encode([PROMPT]), baseline))
    oracle.cols = 4
    painted = run(backbone, exact(backbone, window, bank=oracle), temperature=0.0)
    assert torch.equal(painted.tokens, baseline)
    assert painted.trace.forwards == forward_bounds(backbone.grid, "ssd_exact", {"window": window})[0]
    assert set(painted.trace.changed_fraction()) == {0}


@pytest.mark.parametrize(("rows", "cols", "row_end", "header"), [(4, 7, False, 1), (5, 3, True, 2)])
@pytest.mark.parametrize("window", [3, 9, 50])
@pytest.mark.parametrize("columns", [1, 3])
def test_every_pair_and_target_is_the_right_cell(rows, cols, row_end, header, window, columns):
    backbone = CoordinateBackbone(rows, cols, row_end, header)
    bank = CoordinateBank(cols=cols if columns == 3 else None)
    done = run(backbone, exact(backbone, window, bank=bank), temperature=0.0)
    assert done.tokens.tolist() == [list(range(rows * cols))]
    assert not any(round_.changed.any() for round_ in done.trace.rounds)
    assert len(set(bank.targets)) == len(bank.targets), "a cell is drafted once"
    assert all(0 <= y < rows and 0 <= x < cols for y, x in bank.targets)


def test_a_head_off_by_one_column_costs_forwards_and_nothing_else():
    backbone = CoordinateBackbone(4, 5)
    right = run(backbone, exact(backbone, 6, bank=CoordinateBank()), temperature=0.0)
    shifted = CoordinateBank(shift=1)
    wrong = run(backbone, exact(backbone, 6, bank=shifted), temperature=0.0)
    assert torch.equal(wrong.tokens, right.tokens)
    assert shifted.corrected > 0, "beside replaced tokens, whose pairs the bank has checked"
    assert wrong.trace.forwards > right.trace.forwards


@pytest.mark.parametrize("grid", [Grid(rows=r, cols=c) for r, c in ((1, 7), (5, 1), (3, 5), (4, 9))], ids=str)
def test_drafts_fill_the_window_as_far_as_pairs_are_known(grid):
    for reach, columns in ((1, 1), (5, 3)):
        for end in range(1, grid.size):
            for limit in range(end, grid.size + 1):
                target, right = end, columns == 3 and end % grid.cols > 0
                for source in draft_sources(grid, reach, end, limit, columns=columns):
                    assert 0 <= source.start < source.stop <= end, "only what has a token and a state"
                    assert source.offset.down == 0 or source.stop <= end - right, "and so its neighbour"
                    for position in range(source.start, source.stop):
                        y, x = divmod(position, grid.cols)
                        y, x = y + source.offset.down, x + source.offset.right
                        assert x < grid.cols, "a horizontal draft may not leave its row"
                        assert target == y * grid.cols + x, "without a gap"
                        target += 1
                first_row = min(limit, grid.cols, end + reach)
                full = target == limit
                assert full or target == (
                    first_row if first_row < grid.cols else max(end, end - right + grid.cols)
                )


@pytest.mark.parametrize("row_end", [False, True])
@pytest.mark.parametrize("window", [3, 9])
def test_states_after_all_rollbacks_are_the_teacher_forced_ones(window, row_end):
    backbone = tiny_backbone(5, 4, row_end=row_end)

    class Witness(SSDExact):
        def propose(self, session):
            self.session = session
            return super().propose(session)

    method = exact(backbone, window, Witness)
    painted = run(backbone, method)
    truth = backbone.states(backbone.encode([PROMPT]), painted.tokens)
    assert (method.session.states[:, :-1] - truth).abs().max() < 1e-5
    assert any(round_.changed.any() for round_ in painted.trace.rounds), "nothing was rolled back"
    assert backbone.length == method.session.cached


def test_a_draft_left_in_the_cache_shows_in_the_states():
    backbone = tiny_backbone(5, 4)

    class Witness(CachedDraft):
        def propose(self, session):
            self.session = session
            return super().propose(session)

    method = exact(backbone, 9, Witness)
    truth = backbone.states(backbone.encode([PROMPT]), run(backbone, method).tokens)
    assert (
        method.session.states[:, : method.session.cached] - truth[:, : method.session.cached]
    ).abs().max() > 1e-2


def test_one_forward_and_at_most_one_call_of_each_head_a_step():
    backbone = tiny_backbone(6, 4)
    trace = run(backbone, exact(backbone, 9, corrections=0)).trace
    steps = trace.forwards - 1
    assert 0 < trace.head_calls <= steps + 2 * 3, "v+1 once a step, h+1 to h+3 while row 0 is painted"
    assert trace.fed <= 9 * steps
    examined = trace.changed_map(backbone.grid)
    assert examined[0, 0] == 0, "the first token is exact"


@pytest.mark.parametrize("rule", RELAXED)
def test_a_relaxed_test_makes_it_lossy_and_zero_relaxation_does_not(rule):
    backbone = tiny_backbone(4, 5)
    bank = random_bank(backbone.width)
    strict = build_method("ssd_exact", {"window": 9}, bank)
    none = build_method("ssd_exact", {"window": 9, "rule": {"name": rule, **ZERO[rule]}}, bank)
    relaxed = build_method("ssd_exact", {"window": 9, "rule": {"name": rule, **RELAXED[rule]}}, bank)
    assert (strict.lossless, none.lossless, relaxed.lossless) == (True, True, False)
    wanted, found = run(backbone, strict), run(backbone, none)
    assert torch.equal(found.tokens, wanted.tokens)
    assert found.trace.forwards == wanted.trace.forwards


def test_several_images_at_a_time_are_refused():
    backbone = tiny_backbone()
    with pytest.raises(RowcastError, match="one image at a time for decoder ssd_exact, found 2: set batch=1"):
        generate(backbone, ["a", "b"], exact(backbone, 4), Noise(0, ["a", "b"], [0, 0]))


def test_painting_takes_one_image_at_a_time(tmp_path):
    backbone = tiny_backbone(4, 4)
    method = exact(backbone, 6)
    painting = paint(
        backbone,
        method,
        ["x", "y"],
        images=2,
        seed=0,
        batch=16,
        sampling=backbone.sampling,
        out=tmp_path / "sheet.png",
    )
    alone = [
        generate(backbone, [prompt], method, Noise(0, [prompt], [sample])).trace.forwards
        for prompt in ("x", "y")
        for sample in (0, 1)
    ]
    assert painting.forwards == sum(alone) / 4
