"""Siblings: the state beside another token is the one of an image that holds that token."""

import pytest
import torch

from data.harvest import harvest
from data.siblings import harvest_siblings
from tests.backbones.tiny import tiny_backbone
from tests.data.sets import rollout

pytestmark = pytest.mark.unit

PROMPTS = ["a bag", "a much longer prompt about one red sneaker"]


def harvested(backbone, guided=True, places=100, seed=0):
    images = [rollout(number, prompt) for number, prompt in enumerate(PROMPTS)]
    data = harvest(backbone, images, guided, session=True)
    generator = torch.Generator().manual_seed(seed)
    guidance = 2.0 if guided else 1.0
    return (
        images,
        data,
        harvest_siblings(backbone, images, data, guidance=guidance, generator=generator, places=places),
    )


@pytest.mark.parametrize("row_end", [False, True])
@pytest.mark.parametrize("guided", [False, True])
def test_states_are_those_of_images_with_the_other_token(row_end, guided):
    backbone = tiny_backbone(3, 4, row_end=row_end)
    images, _, siblings = harvested(backbone, guided)
    assert siblings.places.tolist() == [0, 1, 2, 4, 5, 6, 8, 9, 10], (
        "the last of a row has no right neighbour"
    )
    table = backbone.embed(torch.arange(backbone.codes))
    others = torch.cdist(siblings.embeddings, table).argmin(-1)
    tokens = torch.stack([image.tokens for image in images])
    prompt = backbone.encode([image.prompt for image in images], guided)
    for number, place in enumerate(siblings.places.tolist()):
        other = tokens.clone()
        other[:, place] = others[: len(images), number]
        assert (other[:, place] != tokens[:, place]).all()
        truth = backbone.states(prompt, other)[:, place + 1]
        torch.testing.assert_close(siblings.states[:, number], truth, atol=1e-4, rtol=1e-4)


def test_a_harvest_by_session_is_the_same_harvest():
    backbone = tiny_backbone(3, 4, row_end=True)
    images, data, _ = harvested(backbone)
    plain = harvest(backbone, images)
    torch.testing.assert_close(data.states, plain.states, atol=1e-5, rtol=1e-5)
    assert torch.equal(data.embeddings, plain.embeddings)


def test_places_are_limited_and_follow_the_generator():
    backbone = tiny_backbone(3, 4)
    few = [harvested(backbone, places=4, seed=seed)[2].places.tolist() for seed in (0, 0, 1)]
    assert few[0] == few[1] != few[2]
    assert all(len(places) == 4 and places == sorted(set(places)) for places in few)


def test_a_law_of_one_token_still_gives_another():
    backbone = tiny_backbone(3, 4)
    images, data, first = harvested(backbone)
    standing = torch.stack([image.tokens for image in images])[:, first.places]
    sure = torch.nn.functional.one_hot(standing, backbone.codes).float() * 1e4
    harvest(backbone, images, session=True)
    backbone.head = lambda _: sure.repeat(2, 1, 1)
    siblings = harvest_siblings(
        backbone, images, data, guidance=2.0, generator=torch.Generator().manual_seed(0), places=100
    )
    assert (siblings.embeddings[:2] != backbone.embed(standing)).any(-1).all()
