"""Names, dtypes and devices; the pocket model through the front door."""

from pathlib import Path

import pytest
import torch

from backbones.errors import RowcastError
from backbones.registry import known_backbones, load_backbone, rollout_prompts
from tests.backbones.walk import images, walk

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def pocket_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights as pretraining stores them, in bf16."""
    from backbones.pocket.architecture import text_tokenizer, untrained

    folder = tmp_path_factory.mktemp("pocket")
    untrained(seed=0).to(torch.bfloat16).save_pretrained(folder)
    text_tokenizer().save_pretrained(folder)
    return folder


def test_names_are_checked() -> None:
    assert "pocket" in known_backbones()
    with pytest.raises(RowcastError, match=r"janus, pocket, found 'pockt': did you mean pocket\?"):
        load_backbone("pockt")
    with pytest.raises(RowcastError, match="float32, bfloat16, float16, found 'fp8'"):
        load_backbone("pocket", dtype="fp8")
    for device in ("tpu9", "meta", "cpu:0", "cuda:99", "cuda:99999999999"):
        with pytest.raises(RowcastError, match=f"expected a device that this machine has, found '{device}'"):
            load_backbone("pocket", device=device)
    with pytest.raises(RowcastError, match=r"pass model\.path"):
        load_backbone("janus")


def test_rollout_prompts() -> None:
    prompts = rollout_prompts("pocket")
    assert len(prompts) == len(set(prompts)) == 900
    assert "a red sneaker on blue" in prompts
    with pytest.raises(RowcastError, match=r"rollouts\.prompts=FILE .*benchmark\.prompts=FILE"):
        rollout_prompts("janus")


def test_pocket_keeps_the_contract(pocket_folder: Path) -> None:
    backbone = load_backbone("pocket", path=str(pocket_folder), device="cpu")
    assert (backbone.grid.size, backbone.codes, backbone.width) == (256, 512, 192)
    assert backbone.dtype == torch.float32
    prompt, tokens = (
        backbone.encode(["a red sneaker on blue", "green trousers on an bag"]),
        images(backbone, 2),
    )
    states = backbone.states(prompt, tokens)
    live = walk(backbone, prompt, tokens, 16)
    assert torch.allclose(states, live.hidden, rtol=0, atol=1e-5)
    assert torch.allclose(backbone.head(states), live.logits, rtol=0, atol=1e-5)
    pixels = backbone.decode(tokens)
    assert pixels.shape == (2, 3, 32, 32)
    assert pixels.dtype == torch.uint8


def test_dtype_reaches_the_trunk_and_spares_the_pixels(pocket_folder: Path) -> None:
    exact = load_backbone("pocket", path=str(pocket_folder), device="cpu")
    coarse = load_backbone("pocket", path=str(pocket_folder), device="cpu", dtype="bfloat16")
    step = coarse.begin(coarse.encode(["a red bag on blue"]))
    assert step.hidden.dtype == torch.bfloat16
    assert step.logits.dtype == torch.float32
    tokens = images(exact, 1)
    assert torch.equal(coarse.decode(tokens), exact.decode(tokens))
    assert coarse.codebook().dtype == torch.float32
    assert torch.allclose(coarse.codebook().norm(dim=-1), torch.ones(512), atol=1e-6)
    assert coarse.fingerprint != exact.fingerprint


def test_pocket_prompts_are_checked(pocket_folder: Path) -> None:
    backbone = load_backbone("pocket", path=str(pocket_folder), device="cpu")
    for bad, message in (("", "1 to 30 words, found 0"), ("a red dragon on blue", "found 'dragon'")):
        with pytest.raises(RowcastError, match=message):
            backbone.encode([bad])
