"""Captions, tints and the IDX reader."""

import gzip
import struct

import pytest
import torch

from backbones.errors import RowcastError
from backbones.pocket.photographs import (
    COLOUR_NAMES,
    COLOURS,
    GARMENTS,
    all_captions,
    caption,
    draw_colours,
    parse_caption,
    read_split,
    tint,
)

pytestmark = pytest.mark.unit


def test_captions_are_plain_english_and_distinct():
    assert caption(7, 0, 5) == "a red sneaker on blue"
    assert caption(4, 1, 8) == "an orange coat on white"
    assert caption(1, 0, 5) == "red trousers on blue"
    assert len(set(all_captions())) == len(GARMENTS) * 10 * 9


def test_every_caption_parses_back():
    found = [parse_caption(prompt) for prompt in all_captions()]
    ten = range(10)
    assert found == [(g, c, b) for g in ten for c in ten for b in ten if c != b]


@pytest.mark.parametrize("prompt", ["", "a cat", "a red cat on blue", "a plaid sneaker on blue"])
def test_a_prompt_that_cannot_be_scored_is_refused(prompt):
    with pytest.raises(RowcastError, match="a red sneaker on blue"):
        parse_caption(prompt)


def test_tint_paints_garment_and_background():
    grey = torch.zeros(1, 28, 28, dtype=torch.uint8)
    grey[:, 10:18, 10:18] = 255
    red, blue = torch.tensor([COLOUR_NAMES.index("red")]), torch.tensor([COLOUR_NAMES.index("blue")])
    pixels = (255 * tint(grey, red, blue)).round().int()[0]
    assert tuple(pixels[:, 16, 16].tolist()) == COLOURS["red"]
    assert tuple(pixels[:, 0, 0].tolist()) == COLOURS["blue"]


def test_drawn_colours_always_differ():
    colour, background = draw_colours(2000, torch.Generator().manual_seed(0))
    assert (colour != background).all()
    assert set(background.tolist()) == set(range(10))


def _idx(shape: tuple[int, ...]) -> bytes:
    header = struct.pack(">i", 0x0800 + len(shape)) + struct.pack(f">{len(shape)}i", *shape)
    return header + bytes(torch.Size(shape).numel())


def test_reads_plain_and_compressed_files(tmp_path):
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(_idx((10_000, 28, 28)), 1))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(_idx((10_000,)))
    split = read_split(tmp_path, train=False)
    assert split.grey.shape == (10_000, 28, 28)
    assert split.garment.shape == (10_000,)


def test_missing_and_broken_files_say_what_to_do(tmp_path):
    with pytest.raises(RowcastError, match="dataset-fashion-mnist"):
        read_split(tmp_path, train=False)
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(_idx((10_000, 28, 28))[:-1])
    with pytest.raises(RowcastError, match="fetch the file again"):
        read_split(tmp_path, train=False)
