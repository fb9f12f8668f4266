"""Siblings: the state beside another token is the one of an image that holds that token."""

import pytest
import torch

from data.harvest import harvest
from data.siblings import harvest_siblings
from tests.backbones.tiny import tiny_backbone
from tests.data.sets import rollout

pytestmark = pytest.mark.unit

IMAGE = rollout(0, "a much longer prompt about one red sneaker")


def harvested(backbone, guided=True, places=100, seed=0):
    states = harvest(backbone, [IMAGE], guided, session=True).states
    generator = torch.Generator().manual_seed(seed)
    guidance = 2.0 if guided else 1.0
    others = harvest_siblings(backbone, IMAGE, states, guidance=guidance, generator=generator, places=places)
    return states, others


@pytest.mark.parametrize("row_end", [False, True])
@pytest.mark.parametrize("guided", [False, True])
def test_states_are_those_of_images_with_the_other_token(row_end, guided):
    backbone = tiny_backbone(3, 4, row_end=row_end)
    _, others = harvested(backbone, guided)
    assert others.places.tolist() == [0, 1, 2, 4, 5, 6, 8, 9, 10], "the last of a row has no right neighbour"
    prompt = backbone.encode([IMAGE.prompt], guided)
    for number, (place, token) in enumerate(zip(others.places, others.tokens, strict=True)):
        other = IMAGE.tokens[None].clone()
        assert other[0, place] != token
        other[0, place] = token
        truth = backbone.states(prompt, other)[:, place + 1]
        torch.testing.assert_close(others.states[:, number], truth, atol=1e-4, rtol=1e-4)


def test_a_harvest_by_session_is_the_same_harvest():
    backbone = tiny_backbone(3, 4, row_end=True)
    states, _ = harvested(backbone)
    torch.testing.assert_close(states, harvest(backbone, [IMAGE]).states, atol=1e-5, rtol=1e-5)


def test_places_are_limited_and_follow_the_generator():
    backbone = tiny_backbone(3, 4)
    few = [harvested(backbone, places=4, seed=seed)[1].places.tolist() for seed in (0, 0, 1)]
    assert few[0] == few[1] != few[2]
    assert all(len(places) == 4 and places == sorted(set(places)) for places in few)


def test_a_law_of_one_token_still_gives_another():
    backbone = tiny_backbone(3, 4)
    states, first = harvested(backbone)
    standing = IMAGE.tokens[first.places]
    sure = torch.nn.functional.one_hot(standing, backbone.codes).float() * 1e4
    harvest(backbone, [IMAGE], session=True)
    backbone.head = lambda _: sure.repeat(2, 1, 1)
    others = harvest_siblings(
        backbone, IMAGE, states, guidance=2.0, generator=torch.Generator().manual_seed(0), places=100
    )
    assert (others.tokens != standing).all()
