"""Readings are functions of the image alone; a batch of them has conditional rows first."""

import pytest
import torch

from data.cache import StateCache
from data.cached_reading import CachedReader, content, image_hash
from data.reading import DRAWS, Reader, together
from data.rollouts import RolloutSet
from tests.backbones.tiny import tiny_backbone
from tests.data.sets import rollout, write_set

pytestmark = pytest.mark.unit

IMAGES = [rollout(0, "a bag"), rollout(1, "a much longer prompt about one red sneaker")]


def reader(siblings=True, seed=0, guidance=2.0):
    return Reader(tiny_backbone(), guidance=guidance, siblings=siblings, seed=seed)


def tensors(reading):
    others = reading.others
    return [reading.states, *([others.places, others.tokens, others.states] if others else [])]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(tensors(one), tensors(other), strict=True))


def test_batch_mates_and_order_change_nothing():
    reads = reader()
    alone = [reads(image, 0) for image in IMAGES]
    again = [reads(image, 0) for image in IMAGES[::-1]][::-1]
    assert all(same(one, other) for one, other in zip(alone, again, strict=True))


def test_siblings_are_of_seed_image_and_draw():
    reads = reader()
    first = reads(IMAGES[0], 1)
    assert same(first, reads(IMAGES[0], 1 + DRAWS))
    for other in (reads(IMAGES[0], 2), reader(seed=1)(IMAGES[0], 1)):
        assert torch.equal(first.states, other.states)
        assert not same(first, other)


def test_a_batch_holds_one_branch_of_all_images_then_the_next():
    reads = reader()
    readings = [reads(image, 0) for image in IMAGES]
    states, embeddings, siblings = together(reads.backbone, IMAGES, readings)
    assert siblings is not None
    for branch in range(2):
        for n, (image, reading) in enumerate(zip(IMAGES, readings, strict=True)):
            row = 2 * branch + n
            assert torch.equal(states[row], reading.states[branch])
            assert torch.equal(embeddings[row], reads.backbone.embed(image.tokens))
            assert torch.equal(siblings.places[row], reading.others.places)
            assert torch.equal(siblings.embeddings[row], reads.backbone.embed(reading.others.tokens))
            assert torch.equal(siblings.states[row], reading.others.states[branch])
    assert together(reads.backbone, IMAGES, [reader(siblings=False)(i, 0) for i in IMAGES])[2] is None


@pytest.mark.parametrize("siblings", [False, True])
def test_kept_readings_have_the_same_bits(tmp_path, siblings):
    asked = []

    class Counting(Reader):
        def __call__(self, rollout, epoch):
            asked.append(epoch)
            return super().__call__(rollout, epoch)

    live = reader(siblings)
    counting = Counting(live.backbone, guidance=2.0, siblings=siblings, seed=0)
    images = RolloutSet(write_set(tmp_path / "set", images=4))
    cache = StateCache(tmp_path / "cache", limit=10**7, content=content(live, images.contract))
    cached = CachedReader(counting, cache)
    for epoch in range(2 * DRAWS):
        assert all(same(cached(image, epoch), live(image, epoch)) for image in images)
    assert len(asked) == (4 * DRAWS if siblings else 4), "each draw, or the states alone, once"


def test_content_and_image_decide_the_key(tmp_path):
    contract = RolloutSet(write_set(tmp_path / "set")).contract
    readers = [reader(), reader(siblings=False), reader(seed=1), reader(guidance=1.0), reader(guidance=3.0)]
    other = Reader(tiny_backbone(seed=1), guidance=2.0, siblings=True, seed=0)
    half = Reader(tiny_backbone(dtype=torch.bfloat16), guidance=2.0, siblings=True, seed=0)
    assert len({content(reads, contract) for reads in [*readers, other, half]}) == 7
    # Without siblings their seed and the scale of guidance have no part in a reading.
    plain = [reader(siblings=False, seed=seed, guidance=2.0 + seed) for seed in (0, 1)]
    assert len({content(reads, contract) for reads in plain}) == 1
    assert len({image_hash(image) for image in (*IMAGES, rollout(0, "a coat"), rollout(2, "a bag"))}) == 4
    assert image_hash(IMAGES[0]) == image_hash(rollout(0, "a bag"))
