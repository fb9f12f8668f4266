"""The coordinate stub keeps the contract, and shows a wrong stride."""

import pytest
import torch

from backbones.errors import RowcastError
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


def test_entries_at_any_place_emit_the_cell_after_it() -> None:
    backbone = CoordinateBackbone(3, 4, row_end=True)
    tokens = images(backbone, 1)
    backbone.begin(backbone.encode(["a"]))
    backbone.forward(tokens[:, :2])
    sees = torch.tensor([[True, True, False, False], [True, True, True, False]])
    step = backbone.forward_at(tokens[:, :2], [3, 6], sees)
    assert step.logits.argmax(-1)[0].tolist() == [4, 7]
    with pytest.raises(RowcastError, match="raster order"):
        backbone.forward(tokens[:, :1])
    for ahead_or_twice in ([5, 5], [0, 1]):
        with pytest.raises(RowcastError, match=f"places before {ahead_or_twice[0]}, each once"):
            backbone.forward_at(tokens[:, :2], ahead_or_twice, torch.ones(2, 6, dtype=torch.bool))
    backbone.keep_entries([0, 1])
    assert backbone.forward(tokens[:, :1]).logits.argmax(-1)[0].tolist() == [3]


def test_a_gather_with_the_wrong_stride_gives_other_cells() -> None:
    backbone = CoordinateBackbone(3, 4, row_end=True, header=2)
    wrong = backbone.slots[1 : 1 + 12]
    right = backbone.states(backbone.encode(["a"]), images(backbone, 1))[0]
    assert torch.equal(wrong[:4], right[:4])
    assert not torch.equal(wrong[4:], right[4:])
