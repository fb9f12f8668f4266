"""The detector of flat drawings sees what was drawn; our verdicts beside the official evaluator's."""

import json

import numpy as np
import pytest
from scipy import ndimage

from backbones.errors import RowcastError
from eval.scorers.backends.shapes import PALETTE, Shapes, components
from eval.scorers.parity import agreement, read_official
from eval.scorers.pictures import Picture
from tests.eval.scorers.drawings import drawing

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", ["book", "sports ball", "kite"])
@pytest.mark.parametrize("colour", PALETTE)
def test_every_shape_is_seen_in_every_colour(name, colour):
    image = drawing((name, colour, (20, 40)))
    (found,) = Shapes().detect([image])[0]
    assert found.name == name
    assert found.score > 0.9, "counts even where 0.9 is asked for"
    assert found.box[0] in (12, 13)
    assert found.box[1] in (32, 33)
    assert Shapes().colours(image, [found], name) == [colour]


def test_an_empty_drawing_shows_nothing():
    assert Shapes().detect([drawing()]) == [[]]


def test_patches_are_those_of_scipy():
    colours = np.random.default_rng(0).integers(0, 2, (24, 31))
    colours[5, :] = colours[:, 7] = 1  # one large patch
    labels = components(colours)
    for value in (0, 1):
        expected, count = ndimage.label(colours == value)
        ours = np.unique(labels[colours == value])
        assert len(ours) == count
        for label in ours:
            assert len(np.unique(expected[labels == label])) == 1


def test_agreement_with_the_official_evaluator(tmp_path):
    path = tmp_path / "results.jsonl"
    lines = [
        {"filename": f"x/0000{n}/samples/0000.png", "tag": "colors", "correct": right}
        for n, right in enumerate([True, False, True, True])
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    official = read_official(path)
    assert official == {"00000/0000": 1, "00001/0000": 0, "00002/0000": 1, "00003/0000": 1}
    pictures = [Picture(key=f"0000{n}/0000", path=tmp_path, group=f"0000{n}") for n in range(4)]
    values, notes = agreement(pictures, [1.0, 1.0, 1.0, 0.0], official)
    assert values["agreement"].value == 0.5
    assert values["images, official"].value == 0.75
    assert notes == ["the official evaluator differs on 2 of 4 images, such as 00001/0000, 00003/0000"]
    with pytest.raises(RowcastError, match="found none on 1, as 00009/0000"):
        agreement([Picture(key="00009/0000", path=tmp_path)], [1.0], official)
    path.write_text('{"file": 3}')
    with pytest.raises(RowcastError, match=r"expected results\.jsonl of the official"):
        read_official(path)
