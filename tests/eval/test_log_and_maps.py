"""What the log keeps of a trace, and the maps that are drawn from it, against the trace itself."""

import numpy as np
import pytest

from backbones.contract import Grid
from decoding.engine import generate
from decoding.methods import build_method
from decoding.noise import Noise
from eval.maps import maps_of
from eval.masks import cells, direction, judged, mask
from tests.backbones.tiny import tiny_backbone
from tests.eval.test_samples import sample
from tests.eval.tiny import OPTIONS, tiny_bank

pytestmark = pytest.mark.unit


def painted(name, options=None):
    backbone, options = tiny_backbone(), options or OPTIONS[name]
    settings = {key: value for key, value in options.items() if key != "name"}
    method = build_method(options["name"], settings, tiny_bank())
    return backbone.grid, generate(backbone, ["a hat"], method, Noise(3, ["a hat"], [0])).trace


@pytest.mark.parametrize("places", [[], [0], [7], [0, 3, 8, 11], list(range(12))])
def test_masks_come_back(places):
    assert np.flatnonzero(cells(mask(places), 12)).tolist() == places


def test_directions():
    assert [direction(label) for label in ("h+1", "v+2", "t+1", "exact", "sibling")] == [
        "right",
        "down",
        "drafts",
        "drafts",
        "drafts",
    ]


def test_judged_cells_are_those_of_the_trace():
    grid, trace = painted("ssd")
    found = judged(trace, 0)
    assert {"down/0", "down/1"} <= found.keys()
    for name, (examined, accepted) in found.items():
        wanted = [
            (place, bool(flag))
            for seen in trace.rounds
            for place, label, flag in zip(
                seen.positions.tolist(), seen.offsets, seen.accepted[0], strict=True
            )
            if f"{direction(label)}/{seen.index}" == name
        ]
        assert np.flatnonzero(cells(examined, grid.size)).tolist() == sorted(place for place, _ in wanted)
        assert np.flatnonzero(cells(accepted, grid.size)).tolist() == sorted(p for p, flag in wanted if flag)


def test_order_of_plain_autoregression_is_the_raster():
    _, trace = painted("ar")
    assert trace.order == list(range(1, 13))


def test_order_of_row_decoders_is_a_front_that_goes_down_and_right():
    _, trace = painted("zipar", {"name": "zipar", "window": 2})
    order = np.array(trace.order).reshape(3, 4)
    assert order.min() == 1
    assert order.max() == trace.forwards
    assert (np.diff(order, axis=1) > 0).all()
    assert (np.diff(order, axis=0) > 0).all()
    assert order[1, 0] < order[0, 3], "the second row begins before the first ends"


@pytest.mark.parametrize("name", ["ssd", "ssd_r0", "ssd_exact"])
def test_every_cell_is_final_after_some_forward_and_never_after_the_last(name):
    _, trace = painted(name)
    assert min(trace.order) >= 1
    assert max(trace.order) <= trace.forwards


def test_maps_are_shares_of_examined_drafts_and_mean_times():
    grid = Grid(rows=1, cols=4)
    one = sample(
        judged={"down/0": [mask([0, 1]), mask([0])], "right/1": [mask([3]), mask([])]}, order=[1, 2, 2, 4]
    )
    two = sample(judged={"down/0": [mask([0]), mask([])]}, order=[1, 2, 4, 6])
    maps = maps_of([one, two], grid)
    right, down = maps.acceptance
    assert (right.direction, right.round, right.accepted, right.examined) == ("right", 1, 0, 1)
    np.testing.assert_array_equal(down.cells, [[0.5, 0.0, np.nan, np.nan]])
    np.testing.assert_array_equal(maps.order, [[1, 2, 3, 5]])
    assert maps_of([], grid) is None
