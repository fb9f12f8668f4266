"""Custom masks and places: raster order is a special case, paths of a tree are what they would be alone."""

import pytest
import torch

from backbones.errors import RowcastError
from tests.backbones.tiny import TinyBackbone, tiny_backbone
from tests.backbones.walk import images, walk

pytestmark = pytest.mark.unit

PROMPTS = ["one", "a much longer prompt than that"]


@pytest.fixture(params=[False, True], ids=["plain", "row ends"])
def backbone(request: pytest.FixtureRequest) -> TinyBackbone:
    return tiny_backbone(row_end=request.param)


def close(a, b):
    return a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=1e-5)


def causal(old, new):
    return torch.ones(new, old + new, dtype=torch.bool).tril(old)


def test_raster_order_with_a_causal_mask_is_plain_decoding(backbone):
    prompt, tokens = backbone.encode(PROMPTS), images(backbone, 2)
    expected = walk(backbone, prompt, tokens, 11).hidden
    backbone.begin(prompt)
    backbone.forward(tokens[:, :3])
    first = backbone.forward_at(tokens[:, 3:9], range(3, 9), causal(3, 6))
    assert close(first.hidden, expected[:, 4:10])
    assert backbone.length == 9
    backbone.keep(5)
    assert close(backbone.forward(tokens[:, 5:-1]).hidden, expected[:, 6:])


def test_paths_of_a_tree_are_what_they_would_be_alone(backbone):
    """Two branches from place 2 on, interleaved, across the row end after place 3."""
    prompt = backbone.encode(PROMPTS)
    left, right = images(backbone, 2, seed=1), images(backbone, 2, seed=2)
    right[:, :2] = left[:, :2]
    backbone.begin(prompt)
    backbone.forward(left[:, :2])
    nodes = torch.stack([left[:, 2:5], right[:, 2:5]], 2).flatten(1)
    places = [2, 2, 3, 3, 4, 4]
    sees = torch.zeros(6, 8, dtype=torch.bool)
    sees[:, :2] = True
    for node in range(6):
        sees[node, 2 + node % 2 : 2 + node : 2] = True
    tree = backbone.forward_at(nodes, places, sees)
    backbone.keep_entries([0, 1, 3, 5, 7])
    after = backbone.forward(right[:, 5:8])
    for branch, path in enumerate((left, right)):
        alone = walk(backbone, prompt, path, 1)
        assert close(tree.hidden[:, branch::2], alone.hidden[:, 3:6])
    assert close(after.hidden, alone.hidden[:, 6:9])


def test_what_is_not_seen_has_no_influence(backbone):
    prompt, tokens = backbone.encode(PROMPTS), images(backbone, 2)
    other = tokens.clone()
    other[:, 3] = (other[:, 3] + 1) % backbone.codes
    sees = causal(4, 4)
    sees[1:, 3] = False
    hidden = []
    for start in (tokens, other):
        backbone.begin(prompt)
        backbone.forward(start[:, :4])
        hidden.append(backbone.forward_at(tokens[:, 4:8], [4, 5, 6, 7], sees).hidden)
    assert not close(hidden[0][:, 0], hidden[1][:, 0])
    sees[1:, 4] = False
    hidden = []
    for start in (tokens, other):
        backbone.begin(prompt)
        backbone.forward(start[:, :4])
        hidden.append(backbone.forward_at(tokens[:, 4:8], [4, 5, 6, 7], sees).hidden)
    assert close(hidden[0][:, 1:], hidden[1][:, 1:])


def test_the_place_decides_the_position(backbone):
    prompt, tokens = backbone.encode(PROMPTS), images(backbone, 2)
    outputs = []
    for place in (4, 9):
        backbone.begin(prompt)
        backbone.forward(tokens[:, :4])
        outputs.append(backbone.forward_at(tokens[:, 4:5], [place], causal(4, 1)).hidden)
    assert not close(*outputs)


def test_an_entry_that_leaves_leaves_no_trace(backbone):
    """Another token at the end of row 0, seen by one of row 1, then both dropped for the true ones."""
    prompt, tokens = backbone.encode(PROMPTS), images(backbone, 2)
    expected = walk(backbone, prompt, tokens, 11).hidden
    other = (tokens[:, [3, 4]] + 1) % backbone.codes
    backbone.begin(prompt)
    backbone.forward(tokens[:, :3])
    backbone.forward_at(other, [3, 4], causal(3, 2))
    true = backbone.forward_at(tokens[:, 3:4], [3], torch.tensor([[True] * 3 + [False] * 3]))
    assert close(true.hidden, expected[:, 4:5])
    backbone.keep_entries([0, 1, 2, 5])
    assert close(backbone.forward(tokens[:, 4:-1]).hidden, expected[:, 5:])


def test_entries_may_arrive_in_any_order(backbone):
    prompt, tokens = backbone.encode(PROMPTS), images(backbone, 2)
    expected = walk(backbone, prompt, tokens, 11).hidden
    backbone.begin(prompt)
    backbone.forward(tokens[:, :2])
    places, sees = [4, 2, 3], torch.ones(3, 5, dtype=torch.bool)
    sees[1, [2, 4]] = False
    sees[2, 2] = False
    step = backbone.forward_at(tokens[:, places], places, sees)
    assert close(step.hidden, expected[:, [5, 3, 4]])
    backbone.keep_entries([0, 1, 3, 4, 2])
    assert close(backbone.forward(tokens[:, 5:-1]).hidden, expected[:, 6:])


def test_a_tree_may_need_more_room_than_the_image(backbone):
    prompt = backbone.encode(PROMPTS)
    tokens = images(backbone, 2)
    backbone.begin(prompt)
    backbone.forward(tokens[:, :11])
    wide = torch.arange(11).repeat(2, 4)
    sees = torch.zeros(44, 55, dtype=torch.bool)
    sees[:, :11] = True
    step = backbone.forward_at(wide, [11] * 44, sees)
    assert close(step.hidden[:, :11], step.hidden[:, 11:22])
    backbone.keep_entries(range(11))
    assert backbone.length == 11


def test_errors_say_what_to_do(backbone):
    tokens = images(backbone, 1)
    backbone.begin(backbone.encode(["a"]))
    with pytest.raises(RowcastError, match="2 places and 2 x 2 flags for 2 tokens after 0, found 1 places"):
        backbone.forward_at(tokens[:, :2], [0], causal(0, 2))
    with pytest.raises(RowcastError, match="places 0 to 11, found 12 to 12"):
        backbone.forward_at(tokens[:, :1], [12], causal(0, 1))
    backbone.forward_at(tokens[:, :1], [3], causal(0, 1))
    for raster in (lambda: backbone.forward(tokens[:, :1]), lambda: backbone.keep(0)):
        with pytest.raises(RowcastError, match="raster order"):
            raster()
    backbone.begin(backbone.encode(["a"]))
    backbone.forward(tokens[:, :3])
    backbone.keep_entries([0, 2])
    with pytest.raises(RowcastError, match=r"found places \[0, 2\] \.\.\.: call keep_entries"):
        backbone.forward(tokens[:, :1])
    backbone.keep_entries([0])
    with pytest.raises(RowcastError, match="entries 0 to 0, found 1 to 1"):
        backbone.keep_entries([1])
