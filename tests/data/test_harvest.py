"""Harvest: states of archived images are those that decoding sees, whatever the batch."""

from dataclasses import replace

import pytest
import torch

from backbones.errors import RowcastError
from data.harvest import check_harvest, harvest
from data.shards import Rollout
from tests.backbones.coordinates import CoordinateBackbone
from tests.backbones.tiny import tiny_backbone
from tests.data.sets import rollout

pytestmark = pytest.mark.unit

PROMPTS = ["a bag", "a much longer prompt about one red sneaker", "two words", "a"]


def rollouts(count: int = 3) -> list[Rollout]:
    return [rollout(image, PROMPTS[image]) for image in range(count)]


@pytest.mark.parametrize("row_end", [False, True])
@pytest.mark.parametrize("guided", [False, True])
def test_a_batch_equals_single_harvests(row_end, guided):
    backbone = tiny_backbone(row_end=row_end)
    together = harvest(backbone, rollouts(), guided)
    assert together.states.shape == together.embeddings.shape == (6 if guided else 3, 12, backbone.width)
    for n, image in enumerate(rollouts()):
        alone = harvest(backbone, [image], guided)
        for branch in range(1 + guided):
            row = branch * 3 + n
            torch.testing.assert_close(together.states[row], alone.states[branch], atol=1e-5, rtol=1e-5)
            assert torch.equal(together.embeddings[row], backbone.embed(image.tokens))
    swapped = harvest(backbone, rollouts()[::-1], guided)
    assert not torch.allclose(swapped.states[0], together.states[0], atol=1e-3)


@pytest.mark.parametrize("row_end", [False, True])
@pytest.mark.parametrize("guided", [False, True])
def test_harvested_states_give_the_live_logits(row_end, guided):
    check = check_harvest(tiny_backbone(row_end=row_end), rollouts(), tokens=12, guided=guided)
    assert check.error < 1e-4 < check.scale
    assert check.agreement == 1


def test_the_coordinate_stub_agrees():
    backbone = CoordinateBackbone(3, 4, row_end=True)
    image = replace(rollout(0), tokens=torch.arange(12))
    assert harvest(backbone, [image]).states[0].tolist() == backbone.embed(image.tokens).tolist()
    assert check_harvest(backbone, [image]).error == 0


def spoilt(fault):
    """A backbone with a fault that no training loss would show."""
    backbone = tiny_backbone(row_end=True)
    states = backbone.states
    if fault == "post-norm states":
        norm = torch.nn.functional.normalize
        backbone.states = lambda prompt, tokens: norm(states(prompt, tokens), dim=-1) * 3 + 0.3
    if fault == "shifted by one":
        backbone.states = lambda prompt, tokens: states(prompt, tokens).roll(-1, dims=1)
    if fault == "swapped branches":
        backbone.states = lambda prompt, tokens: states(prompt, tokens).roll(len(tokens), dims=0)
    if fault == "swapped images":
        backbone.states = lambda prompt, tokens: states(prompt, tokens.flip(0)).flip(0)
    return backbone


@pytest.mark.parametrize(
    "fault", ["post-norm states", "shifted by one", "swapped branches", "swapped images"]
)
def test_control_a_wrong_tap_is_refused(fault):
    with pytest.raises(
        RowcastError, match=r"live logits within .* and the same best code in 99%, found an error of"
    ):
        check_harvest(spoilt(fault), rollouts())


@pytest.mark.parametrize(
    "tokens", [torch.arange(11), torch.arange(13), torch.full((12,), 11), torch.full((12,), -1)]
)
def test_tokens_that_are_not_image_tokens_are_refused(tokens):
    image = replace(rollout(0), tokens=tokens)
    with pytest.raises(RowcastError, match=r"expected 12 image tokens in 0..10 in image 00000000, found"):
        harvest(tiny_backbone(), [image])


def test_states_that_are_not_finite_name_their_image():
    backbone = tiny_backbone()
    states = backbone.states

    def broken(prompt, tokens):
        result = states(prompt, tokens).clone()
        result[4, 3, 0] = torch.nan
        return result

    backbone.states = broken
    with pytest.raises(RowcastError, match="expected finite states of image 00000001"):
        harvest(backbone, rollouts())


def test_a_harvest_can_be_trained_on():
    """States must be plain constants of autograd, not inference tensors."""
    found = harvest(tiny_backbone(), rollouts(1))
    weight = torch.ones(found.states.shape[-1], requires_grad=True)
    (found.states * weight * found.embeddings).sum().backward()
    assert weight.grad is not None
    assert not found.states.requires_grad
