"""Random streams belong to images."""

import pytest
import torch

from backbones.errors import RowcastError
from decoding.noise import BUFFER, Noise

pytestmark = pytest.mark.unit


def test_streams_do_not_depend_on_batch_mates_or_portions():
    together = Noise(3, ["a", "b", "a"], [0, 0, 1]).uniform(2 * BUFFER + 5)
    alone = Noise(3, ["a"], [1])
    portions = torch.cat([alone.uniform(n) for n in (1, 7, BUFFER, BUFFER - 4, 1)], 1)
    assert torch.equal(together[2:], portions)
    assert together.dtype == torch.float64
    assert together.min() >= 0
    assert together.max() < 1


def test_seed_prompt_and_sample_all_matter():
    streams = [
        Noise(*key).uniform(4) for key in ((0, ["a"], [0]), (1, ["a"], [0]), (0, ["b"], [0]), (0, ["a"], [1]))
    ]
    assert len({tuple(stream[0].tolist()) for stream in streams}) == 4


def test_streams_are_the_same_on_every_machine():
    expected = [0.8103735946602524, 0.9123594420752089]
    assert Noise(0, ["a red sneaker on blue"], [0]).uniform(2)[0].tolist() == expected


def test_one_sample_index_a_prompt():
    with pytest.raises(RowcastError, match="found 1 for 2 prompts"):
        Noise(0, ["a", "b"], [0])
