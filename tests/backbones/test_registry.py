"""Names, dtypes and devices; the pocket model through the front door."""

from pathlib import Path

import pytest
import torch

from backbones.errors import RowcastError
from backbones.prompts import scenes
from backbones.registry import family, known_backbones, load_backbone, rollout_prompts
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
    with pytest.raises(RowcastError, match=r"pocket, lumina, .*, found 'pockt': did you mean pocket\?"):
        load_backbone("pockt")
    with pytest.raises(RowcastError, match=r"expected a weights of published, random, found 'rnadom'"):
        load_backbone("pocket", weights="rnadom")
    with pytest.raises(RowcastError, match="float32, bfloat16, float16, found 'fp8'"):
        load_backbone("pocket", dtype="fp8")
    for device in ("tpu9", "meta", "cpu:0", "cuda:99", "cuda:99999999999"):
        with pytest.raises(RowcastError, match=f"expected a device that this machine has, found '{device}'"):
            load_backbone("pocket", device=device)
    with pytest.raises(RowcastError, match=r"weights for janus_1b, found none: pass model\.path"):
        load_backbone("janus_1b")


def test_rollout_prompts() -> None:
    prompts = rollout_prompts("pocket")
    assert len(prompts) == len(set(prompts)) == 900
    assert "a red sneaker on blue" in prompts
    assert rollout_prompts("janus") == rollout_prompts("emu3") == scenes()


@pytest.mark.parametrize("name", known_backbones())
def test_every_family_offers_the_same_functions(name: str) -> None:
    module = family(name)
    assert all(callable(getattr(module, function)) for function in ("load", "random", "prompts"))


def test_random_weights_need_no_files(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    backbone = load_backbone("pocket", weights="random", path=nowhere, device="cpu", size="32x32")
    assert backbone.begin(backbone.encode(["a red bag on blue"])).logits.shape == (2, 1, 512)
    assert backbone.decode(images(backbone, 1)).shape == (1, 3, 32, 32)
    with pytest.raises(RowcastError, match=r"a size of model pocket, found '64x64': .* one of 32x32"):
        load_backbone("pocket", weights="random", size="64x64")


def test_shapes_alone_hold_no_memory() -> None:
    backbone = load_backbone("pocket", weights="random", device="meta")
    assert backbone.device.type == "meta"
    assert backbone.embed(images(backbone, 1)).shape == (1, 256, 192)
    with pytest.raises(RowcastError, match="found shapes alone"):
        _ = backbone.fingerprint


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
