"""Image sizes as users write them."""

import pytest

from backbones.contract import Grid
from backbones.errors import RowcastError
from backbones.sizes import grid_of

pytestmark = pytest.mark.unit

GRIDS = {"64x32": Grid(rows=4, cols=8), "32x64": Grid(rows=8, cols=4)}


@pytest.mark.parametrize("size", ["64x32", "64X32", " 64 x 32 "])
def test_a_size_is_width_by_height(size: str) -> None:
    assert grid_of(size, "32x64", GRIDS, "some") == Grid(rows=4, cols=8)


def test_none_takes_the_default() -> None:
    assert grid_of(None, "32x64", GRIDS, "some") == Grid(rows=8, cols=4)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("64x64", r"expected a size of model some, found '64x64': pass model\.size= one of 64x32, 32x64"),
        ("64", "expected WIDTHxHEIGHT, a size of model some, found '64'"),
        ("", "expected WIDTHxHEIGHT, a size of model some, found ''"),
        ("64x32px", "expected WIDTHxHEIGHT"),
    ],
)
def test_other_sizes_are_refused_with_the_list(size: str, message: str) -> None:
    with pytest.raises(RowcastError, match=message):
        grid_of(size, "32x64", GRIDS, "some")
