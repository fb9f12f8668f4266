"""The slot cache against transformers' own growing cache."""

import pytest
import torch
from transformers import DynamicCache

from backbones.cache import SlotCache
from tests.backbones.tiny import tiny_backbone

pytestmark = pytest.mark.unit


def test_equals_dynamic_cache_through_a_trunk() -> None:
    trunk = tiny_backbone()._trunk
    inputs = torch.randn(2, 9, trunk.config.hidden_size, generator=torch.Generator().manual_seed(0))
    ours, theirs = SlotCache(trunk.config.num_hidden_layers, slots=20), DynamicCache(config=trunk.config)
    for part in (inputs[:, :4], inputs[:, 4:5], inputs[:, 5:]):
        states = [
            trunk(inputs_embeds=part, cache=cache, use_cache=True).last_hidden_state
            for cache in (ours, theirs)
        ]
        assert torch.equal(*states)
        assert ours.length == theirs.get_seq_length()
    ours.keep(5)
    theirs.crop(-4)
    again = [trunk(inputs_embeds=inputs[:, 5:], cache=cache).last_hidden_state for cache in (ours, theirs)]
    assert torch.equal(*again)


def test_writes_in_place_and_shows_the_filled_part_only() -> None:
    cache = SlotCache(1, slots=6)
    new = torch.ones(1, 2, 3, 4)
    keys, values = cache.update(new, 2 * new, 0)
    assert keys.shape == values.shape == (1, 2, 3, 4)
    longer, _ = cache.update(3 * new, new, 0)
    assert longer.shape[2] == 6
    assert longer.data_ptr() == keys.data_ptr()
    cache.keep(4)
    overwritten, _ = cache.update(5 * new[:, :, :1], new[:, :, :1], 0)
    assert overwritten[0, 0, :, 0].tolist() == [1, 1, 1, 3, 5]


def test_grows_for_a_tree_beside_the_image() -> None:
    cache = SlotCache(1, slots=2)
    new = torch.arange(12.0).view(1, 1, 3, 4)
    cache.update(new[:, :, :2], new[:, :, :2], 0)
    keys, values = cache.update(new[:, :, 2:], new[:, :, 2:], 0)
    assert torch.equal(keys, new)
    assert torch.equal(values, new)


def test_gather_keeps_slots_in_the_given_order() -> None:
    cache = SlotCache(2, slots=4)
    new = torch.arange(16.0).view(1, 1, 4, 4)
    for layer in range(2):
        cache.update(new, new, layer)
    cache.gather(torch.tensor([0, 3, 2]))
    assert cache.length == 3
    keys, _ = cache.update(new[:, :, :1], new[:, :, :1], 1)
    assert torch.equal(keys, new[:, :, [0, 3, 2, 0]])
    cache.gather(torch.tensor([0, 1]))
    assert torch.equal(cache.update(new[:, :, :1], new[:, :, :1], 1)[0], new[:, :, [0, 3, 0]])


def test_refuses_to_keep_more_than_it_holds() -> None:
    cache = SlotCache(1, slots=2)
    new = torch.ones(1, 1, 2, 4)
    cache.update(new, new, 0)
    with pytest.raises(ValueError, match="minus 0 to 2 slots"):
        cache.keep(3)
