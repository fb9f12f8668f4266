"""The schedule of SSD: geometry, counts, and options."""

import pytest
import torch

from backbones.contract import Grid
from backbones.errors import RowcastError
from decoding.accounting import expected_forwards, forward_bounds
from decoding.engine import generate
from decoding.methods import build_method
from decoding.methods.schedule import schedule
from decoding.noise import Noise
from decoding.options import parse_options
from decoding.options.ssd import SSDOptions
from tests.backbones.coordinates import CoordinateBackbone
from tests.decoding.banks import random_bank

pytestmark = pytest.mark.unit

OPTIONS = [
    {"rounds": rounds, "rows": rows, "staged_rounds": staged, "first_row": first}
    for rounds in (0, 1, 3)
    for rows, staged in ((1, 0), (2, 0), (2, 1), (2, 2))
    for first in ({}, {"block": 2, "rounds": 0}, {"block": 3, "rounds": 2, "bonus_token": True})
]
GRIDS = [Grid(rows=r, cols=c) for r, c in ((1, 1), (1, 7), (5, 1), (4, 1), (2, 2), (3, 5), (4, 6), (6, 4))]


class CheapBackbone(CoordinateBackbone):
    """Two equally likely codes: only the bookkeeping of big grids is left."""

    def __init__(self, rows: int, cols: int, row_end: bool = False) -> None:
        super().__init__(rows, cols, row_end)
        self.codes = 2

    def head(self, hidden):
        return hidden.new_zeros(*hidden.shape[:-1], 2)


def forwards(backbone, name, options):
    method = build_method(name, options, random_bank(backbone.width))
    trace = generate(backbone, ["x"], method, Noise(0, ["x"], [0])).trace
    return trace.forwards


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_token_is_drafted_or_exact_once_and_judged_as_often_as_promised(options):
    for grid in GRIDS:
        parsed = build_method("ssd", options, random_bank(2)).options
        cached, end, judged = 0, 0, [0] * grid.size
        for step in schedule(grid, parsed):
            end += step.exact
            known = end
            for source in step.sources:
                for position in range(source.start, source.stop):
                    y, x = divmod(position, grid.cols)
                    assert position <= cached, "a draft may only lean on exact states"
                    assert position < known, "and on tokens that are final"
                    assert x + source.offset.right < grid.cols, "a horizontal draft may not leave its row"
                    assert end == (y + source.offset.down) * grid.cols + x + source.offset.right
                    end += 1
            assert cached <= step.cached <= step.final <= end
            for position in range(step.final, end):
                judged[position] += 1
            cached = step.cached
        assert cached == end == grid.size
        assert len(schedule(grid, parsed)) + 1 == expected_forwards(grid, "ssd", options)
        assert set(judged[: grid.cols]) <= {0, parsed.first_row.rounds}
        assert set(judged[grid.cols :]) <= {0, parsed.rounds, parsed.rounds + parsed.staged_rounds}


@pytest.mark.parametrize(
    ("rows", "cols", "row_end", "options", "count"),
    [
        (16, 16, False, {"rounds": 2}, 52),
        (24, 24, False, {"rounds": 0}, 34),
        (24, 24, False, {"rounds": 1}, 57),
        (24, 24, False, {"rounds": 2}, 80),
        (24, 24, False, {"rounds": 2, "first_row": {"bonus_token": True}}, 78),
        (48, 48, True, {"rounds": 4, "rows": 2}, 141),
        (48, 48, True, {"rounds": 2, "rows": 2, "staged_rounds": 2}, 141),
        (90, 90, True, {"rounds": 9, "rows": 2}, 487),
        (90, 90, True, {"rounds": 5, "rows": 2, "staged_rounds": 4}, 487),
    ],
)
def test_counter_of_the_published_geometries(rows, cols, row_end, options, count):
    backbone = CheapBackbone(rows, cols, row_end)
    assert expected_forwards(backbone.grid, "ssd", options) == count
    assert forwards(backbone, "ssd", options) == count


def test_autoregression_counts_the_grid():
    assert expected_forwards(Grid(rows=24, cols=24), "ar", {}) == 576
    assert forwards(CheapBackbone(24, 24), "ar", {}) == 576


def test_defaults_are_the_best_setting_of_the_paper():
    assert parse_options("ssd", {}) == SSDOptions(rounds=2, rows=1, staged_rounds=0)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sdd", {}, "expected a decoder out of ar, ssd, .*, found sdd"),
        ("ar", {"rounds": 1}, "unknown option decoder.rounds: it has no options"),
        ("ssd", {"round": 1}, "unknown option decoder.round: did you mean decoder.rounds"),
        ("ssd", {"rounds": -1}, "option decoder.rounds: expected 0 to 1000, found -1"),
        ("ssd", {"rounds": 1001}, "option decoder.rounds: expected 0 to 1000, found 1001"),
        ("ssd", {"rounds": "2"}, "option decoder.rounds: expected int, found '2'"),
        ("ssd", {"rounds": True}, "option decoder.rounds: expected int, found True"),
        ("ssd", {"rows": 3}, "decoder.rows: expected 1 to 2, found 3"),
        ("ssd", {"staged_rounds": 1}, "staged_rounds=0 with one row, found 1"),
        ("ssd", {"first_row": 5}, "decoder.first_row: expected a group of options, found 5"),
        ("ssd", {"first_row": {"block": 0}}, "first_row.block: expected 1 to 1000000000, found 0"),
        ("ssd", {"first_row": {"block": 6}}, "first_row.block 1 to 5, found 6"),
        ("ssd", {"first_row": {"bonus_token": 1}}, "bonus_token: expected bool, found 1"),
        ("ssd_exact", {"window": 0}, "decoder.window: expected 1 to 1000000000, found 0"),
        ("ssd_exact", {"window": "9"}, "decoder.window: expected int, found '9'"),
        ("ssd_exact", {"rounds": 2}, "unknown option decoder.rounds: did you mean decoder.corrections"),
        ("ssd", {"rows": 2}, "decoder.rows 1 to 1, found 2.*heads.vertical=2"),
    ],
)
def test_options_out_of_range_say_what_is_valid(name, options, message):
    with pytest.raises(RowcastError, match=message):
        build_method(name, options, random_bank(4, 5, 1))


@pytest.mark.parametrize("name", ["ssd", "ssd_exact"])
def test_speculation_without_heads_is_refused(name):
    with pytest.raises(RowcastError, match=f"expected draft heads for decoder {name}"):
        build_method(name, {}, None)


@pytest.mark.parametrize(("horizontal", "vertical"), [(0, 1), (5, 0)])
def test_lossless_speculation_needs_heads_of_both_directions(horizontal, vertical):
    with pytest.raises(RowcastError, match=f"found {horizontal} horizontal and {vertical} vertical"):
        build_method("ssd_exact", {}, random_bank(4, horizontal, vertical))


def test_a_count_that_depends_on_the_image_is_not_promised():
    grid = Grid(rows=16, cols=16)
    with pytest.raises(RowcastError, match=r"with a fixed count, .*, found ssd_exact"):
        expected_forwards(grid, "ssd_exact", {})
    assert forward_bounds(grid, "ssd_exact", {}) == (9, 256)
    assert forward_bounds(grid, "ssd", {}) == (52, 52)


def test_changed_map_and_fractions_come_from_the_rounds():
    backbone = CoordinateBackbone(4, 3)
    method = build_method("ssd", {"rounds": 1}, random_bank(2))
    trace = generate(backbone, ["x"], method, Noise(0, ["x"], [0])).trace
    changes = trace.changed_map(backbone.grid)
    assert (changes[:, 0] == 0).all(), "column 0 is exact"
    judged = sum(round_.changed.numel() for round_ in trace.rounds)
    assert changes.sum() == pytest.approx(trace.changed_fraction()[0] * judged)
    examined = {label: count for label, (_, count) in trace.acceptance().items()}
    assert examined == {"h+1": 1, "h+2": 1, "v+1": 6}
    assert torch.is_tensor(trace.rounds[0].positions)


@pytest.mark.parametrize("reach", [1, 3])
@pytest.mark.parametrize("options", [{}, {"first_row": {"block": None}}])
def test_the_first_row_is_drafted_as_far_as_the_heads_reach(reach, options):
    backbone = CheapBackbone(4, 6)
    heads = random_bank(2, horizontal=reach)
    method = build_method("ssd", options, heads)
    painted = generate(backbone, ["x"], method, Noise(0, ["x"], [0]))
    assert painted.trace.forwards == expected_forwards(backbone.grid, "ssd", options, reach)
    with pytest.raises(RowcastError, match=f"first_row.block 1 to {reach}, found {reach + 1}"):
        build_method("ssd", {"first_row": {"block": reach + 1}}, heads)
