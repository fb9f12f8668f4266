"""Every pair of every head joins the right two places of the grid."""

import pytest
import torch

from backbones.contract import Grid
from heads.offsets import (
    Ahead,
    Offset,
    beside,
    horizontal_offsets,
    pairs,
    raster_offsets,
    vertical_offsets,
)
from tests.backbones.coordinates import CoordinateBackbone

pytestmark = pytest.mark.unit

GRIDS = [Grid(rows=r, cols=c) for r, c in [(1, 1), (1, 7), (7, 1), (3, 5), (5, 3), (2, 6), (6, 6)]]
OFFSETS = horizontal_offsets(5) + vertical_offsets(5)


def brute_force(grid, offset):
    """The twin: walks the grid cell by cell and keeps the targets that exist."""
    found = []
    for y in range(grid.rows):
        for x in range(grid.cols):
            if y + offset.down < grid.rows and x + offset.right < grid.cols:
                found.append((y * grid.cols + x, (y + offset.down) * grid.cols + x + offset.right))
    return found


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid.rows}x{grid.cols}")
@pytest.mark.parametrize("offset", OFFSETS, ids=lambda offset: offset.label)
def test_pairs_equal_brute_force(grid, offset):
    source, target = pairs(grid, offset)
    assert list(zip(source.tolist(), target.tolist(), strict=True)) == brute_force(grid, offset)


@pytest.mark.parametrize("offset", OFFSETS, ids=lambda offset: offset.label)
def test_pairs_hit_the_coordinates(offset):
    grid = Grid(rows=7, cols=9)
    coordinates = torch.cartesian_prod(torch.arange(grid.rows), torch.arange(grid.cols))
    source, target = pairs(grid, offset)
    step = coordinates[target] - coordinates[source]
    assert step.unique(dim=0).tolist() == [[offset.down, offset.right]]
    assert len(source) == (grid.rows - offset.down) * (grid.cols - offset.right)


@pytest.mark.parametrize("row_end", [False, True])
@pytest.mark.parametrize("header", [1, 3])
def test_pairs_join_the_states_of_a_backbone(row_end, header):
    """A state that says which token it emits: the pair's own cell, and a target exactly the offset away."""
    backbone = CoordinateBackbone(rows=5, cols=7, row_end=row_end, header=header)
    tokens = torch.arange(backbone.grid.size)[None]
    states = backbone.states(backbone.encode(["any"]), tokens)[0]
    embeddings = backbone.embed(tokens)[0]
    for offset in OFFSETS:
        source, target = pairs(backbone.grid, offset)
        step = torch.tensor([offset.down, offset.right], dtype=torch.float32).expand(len(source), -1)
        assert torch.equal(embeddings[source], states[source])
        assert torch.equal(states[target] - states[source], step)


def test_a_plain_raster_shift_would_cross_row_ends():
    grid, offset = Grid(rows=3, cols=5), Offset(0, 2)
    shifted = [(p, p + offset.right) for p in range(grid.size - offset.right)]
    assert set(brute_force(grid, offset)) < set(shifted)


def test_stride_of_row_ends_would_miss_the_column():
    grid, offset = Grid(rows=3, cols=5), Offset(1, 0)
    source, target = pairs(grid, offset)
    assert ((target - source) == grid.cols).all()
    assert not torch.equal(source + grid.cols + 1, target)


def test_offsets_are_named_hashed_and_ordered():
    assert [offset.label for offset in horizontal_offsets(2) + vertical_offsets(2)] == [
        "h+1",
        "h+2",
        "v+1",
        "v+2",
    ]
    assert len({Offset(0, 1), Offset(0, 1), Offset(1, 0)}) == 2
    assert horizontal_offsets(0) == ()


@pytest.mark.parametrize(("down", "right"), [(0, 0), (1, 1), (-1, 0), (0, -2), (-1, 2)])
def test_offsets_go_right_or_down(down, right):
    with pytest.raises(ValueError, match="right or down"):
        Offset(down, right)


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid.rows}x{grid.cols}")
@pytest.mark.parametrize("steps", [1, 3, 8])
def test_pairs_along_the_raster_cross_the_ends_of_rows(grid, steps):
    source, target = pairs(grid, Ahead(steps))
    found = list(zip(source.tolist(), target.tolist(), strict=True))
    assert found == [(place, place + steps) for place in range(grid.size) if place + steps < grid.size]


def test_offsets_along_the_raster():
    assert [offset.label for offset in raster_offsets(3)] == ["t+1", "t+2", "t+3"]
    with pytest.raises(ValueError, match="goes forward, found 0"):
        Ahead(0)


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid.rows}x{grid.cols}")
def test_neighbours_are_those_in_the_row_and_nothing_beyond_its_ends(grid):
    """Also on several images one after another, and on vectors that begin in the middle of one."""
    images = 2
    vectors = torch.arange(1.0, images * grid.size + 1)[:, None]
    places = torch.arange(images * grid.size)
    found = beside(vectors, places, grid.cols, 3)[:, :, None]
    for place in places.tolist():
        row = range(place // grid.cols * grid.cols, (place // grid.cols + 1) * grid.cols)
        cells = (place, place - 1, place + 1)
        wanted = [vectors[cell] if cell in row else torch.zeros(1) for cell in cells]
        assert torch.equal(found[place], torch.stack(wanted))
    assert torch.equal(beside(vectors, places, grid.cols, 1), vectors)
    inner = places[1:-1]
    assert torch.equal(
        beside(vectors[1:-1], inner[1:-1], grid.cols, 3, first=1), beside(vectors, inner[1:-1], grid.cols, 3)
    )


def test_what_stands_beyond_the_end_of_a_row_may_be_anything():
    vectors = torch.tensor([[1.0], [2.0], [float("nan")]])
    assert torch.equal(beside(vectors, torch.tensor([1]), 2, 3), torch.tensor([[2.0, 1.0, 0.0]]))
