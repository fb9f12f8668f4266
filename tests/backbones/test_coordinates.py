"""The coordinate stub keeps the contract, and shows a wrong stride."""

import pytest
import torch

from tests.backbones.coordinates import CoordinateBackbone
from tests.backbones.walk import images, walk

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("row_end", [False, True])
def test_every_way_through_emits_the_cells_in_raster_order(row_end: bool) -> None:
    backbone = CoordinateBackbone(3, 4, row_end)
    prompt, tokens = backbone.encode(["a", "b"]), images(backbone, 2)
    for block in (1, 3, 5, 11):
        step = walk(backbone, prompt, tokens, block)
        assert (step.logits.argmax(-1) == torch.arange(12)).all()
        assert torch.equal(step.hidden, backbone.states(prompt, tokens))
        assert torch.equal(step.hidden[0], backbone.embed(torch.arange(12)))
    backbone.keep(2)
    assert backbone.forward(tokens[:, :1]).logits.argmax(-1).flatten().tolist() == [3] * 4


def test_a_gather_with_the_wrong_stride_gives_other_cells() -> None:
    backbone = CoordinateBackbone(3, 4, row_end=True, header=2)
    wrong = backbone.slots[1 : 1 + 12]
    right = backbone.states(backbone.encode(["a"]), images(backbone, 1))[0]
    assert torch.equal(wrong[:4], right[:4])
    assert not torch.equal(wrong[4:], right[4:])
