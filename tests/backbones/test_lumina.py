"""Lumina-mGPT and Anole on tiny random checkpoints; transformers' own Chameleon is the oracle."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers import ChameleonConfig, ChameleonForConditionalGeneration

from backbones.chameleon_prompt import anole_grid, lumina_grid
from backbones.errors import RowcastError
from backbones.lumina import Chameleon
from backbones.registry import load_backbone
from tests.backbones.checkpoints.chameleon import (
    BOI,
    BOS,
    CODES,
    END_TURN,
    FIRST_SIZE,
    PAD,
    ROW_END,
    WIDTH,
    vq_tensors,
    write_anole,
    write_lumina,
)
from tests.backbones.taming import taming_pixels
from tests.backbones.walk import images, walk

pytestmark = pytest.mark.unit

INSTRUCTION = "Generate an image of 96x64 according to the following prompt:\n"
HEADER = [BOI, FIRST_SIZE + 2, FIRST_SIZE + 3]
"""Two cells high, three wide."""


def load(name: str, options: dict[str, Any], **changed: Any) -> Chameleon:
    backbone = load_backbone(name, device="cpu", **(options | changed))
    assert isinstance(backbone, Chameleon)
    return backbone


@pytest.fixture(scope="module")
def lumina_options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return write_lumina(tmp_path_factory.mktemp("lumina"))


@pytest.fixture(scope="module")
def anole_options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return write_anole(tmp_path_factory.mktemp("anole"))


@pytest.fixture(scope="module")
def lumina(lumina_options: dict[str, Any]) -> Chameleon:
    return load("lumina", lumina_options)


@pytest.fixture(scope="module")
def anole(anole_options: dict[str, Any]) -> Chameleon:
    return load("anole", anole_options)


def words(options: dict[str, Any], text: str) -> list[int]:
    """The ids of a text, by the tokenizers library alone."""
    return Tokenizer.from_file(f"{options['path']}/tokenizer.json").encode(text, add_special_tokens=False).ids


def test_facts(lumina: Chameleon, anole: Chameleon) -> None:
    assert (lumina.grid.rows, lumina.grid.cols, lumina.codes, lumina.width) == (4, 6, CODES, WIDTH)
    assert (anole.grid.rows, anole.grid.cols, anole.codes, anole.width) == (4, 4, CODES, WIDTH)
    assert (lumina.sampling.guidance, lumina.sampling.temperature) == (4, 1)
    assert (lumina.sampling.top_k, lumina.sampling.top_p) == (2000, None)
    assert (anole.sampling.guidance, anole.sampling.temperature) == (3, 0.7)
    assert (anole.sampling.top_k, anole.sampling.top_p) == (None, 0.9)
    assert (lumina.name, anole.name) == ("lumina", "anole")
    assert lumina._image_head.weight.untyped_storage().nbytes() == CODES * WIDTH * 4


def test_prompts_token_by_token(lumina: Chameleon, anole: Chameleon, lumina_options: dict[str, Any]) -> None:
    text = "a cat\non a <mat>"
    ids = lumina.prompt_ids(text)
    assert ids == [BOS, *words(lumina_options, INSTRUCTION + text), END_TURN, *HEADER]
    assert lumina.unconditional_ids(ids) == HEADER
    assert anole.prompt_ids(text) == [BOS, *words(lumina_options, text), END_TURN, BOI]
    assert anole.unconditional_ids(ids) == [BOS, BOI]
    prompt = lumina.encode(["a cat"])
    assert prompt.mask.sum(1).tolist() == [len(lumina.prompt_ids("a cat")), 3]
    assert lumina._pad == PAD


def stock(options: dict[str, Any], tensors: dict[str, Tensor]) -> ChameleonForConditionalGeneration:
    """transformers' model with every head's own query and key norms."""
    fields = json.loads((Path(options["path"]) / "config.json").read_text())
    small = {"base_channels": 32, "channel_multiplier": [1], "num_res_blocks": 1, "latent_channels": 8}
    config = ChameleonConfig(**(fields | {"vq_config": small}))
    model = ChameleonForConditionalGeneration(config).eval()
    for name, tensor in tensors.items():
        if "q_norm" in name or "k_norm" in name:
            heads = config.num_attention_heads if "q_norm" in name else config.num_key_value_heads
            per_device = heads // len(tensor)
            tensors[name] = torch.stack([tensor[head // per_device] for head in range(heads)])
    own = {name: tensor for name, tensor in tensors.items() if not name.startswith("model.vqmodel.")}
    missing, unexpected = model.load_state_dict(own, strict=False)
    assert not unexpected
    assert all(name.startswith("model.vqmodel.") for name in missing)
    return model


def all_tensors(options: dict[str, Any]) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for file in sorted(Path(options["path"]).glob("*.safetensors")):
        tensors |= {name: tensor.float() for name, tensor in load_file(file).items()}
    return tensors


@torch.no_grad()
def expected_logits(
    backbone: Chameleon, model: ChameleonForConditionalGeneration, prompt: list[int], tokens: Tensor
) -> tuple[Tensor, Tensor]:
    """Laws of all image tokens by transformers' model on the written-out sequence, and its last states."""
    to_token = model.model.vocabulary_mapping.img2bpe
    sequence, emits = list(prompt), [len(prompt) - 1]
    for place, code in enumerate(tokens.tolist()):
        sequence.append(to_token[code])
        if backbone.name == "lumina" and (place + 1) % backbone.grid.cols == 0:
            sequence.append(ROW_END)
        emits.append(len(sequence) - 1)
    states = model.model(input_ids=torch.tensor([sequence])).last_hidden_state[0, emits[:-1]]
    rows = [to_token[code] for code in range(backbone.codes)]
    return model.lm_head(states)[:, rows], states


def check_against_stock(backbone: Chameleon, model: ChameleonForConditionalGeneration) -> None:
    tokens = images(backbone, 1)
    prompt = backbone.encode(["a cat"])
    ids = backbone.prompt_ids("a cat")
    states = backbone.states(prompt, tokens)
    stepped = walk(backbone, prompt, tokens, 5)
    for row, context in enumerate((ids, backbone.unconditional_ids(ids))):
        logits, normed = expected_logits(backbone, model, context, tokens[0])
        assert logits.std() > 0.5
        assert torch.allclose(backbone.head(states)[row], logits, rtol=0, atol=2e-5)
        assert torch.allclose(stepped.logits[row], logits, rtol=0, atol=2e-5)
        assert not torch.allclose(backbone.head(normed), logits, atol=0.1)


def test_lumina_is_transformers_own(lumina: Chameleon, lumina_options: dict[str, Any]) -> None:
    check_against_stock(lumina, stock(lumina_options, all_tensors(lumina_options)))


def test_anole_is_transformers_own(anole: Chameleon, anole_options: dict[str, Any]) -> None:
    check_against_stock(anole, stock(anole_options, all_tensors(anole_options)))


@pytest.mark.parametrize("swin", [False, True])
def test_norms_of_several_devices(swin: bool, tmp_path: Path) -> None:
    """As in 34B: norms by device, grouped keys, norms after the blocks."""
    options = write_lumina(tmp_path, devices=2, num_key_value_heads=2, swin_norm=swin, model_parallel_size=2)
    backbone = load("lumina", options)
    tensors = all_tensors(options)
    check_against_stock(backbone, stock(options, dict(tensors)))
    # Heads of one device lie side by side: dealing the norms out in turn is another model.
    swapped = {n: t.flip(0) if "q_norm" in n else t for n, t in tensors.items()}
    with pytest.raises(AssertionError):
        check_against_stock(backbone, stock(options, swapped))


def test_pixels(
    lumina: Chameleon, anole: Chameleon, lumina_options: dict[str, Any], anole_options: dict[str, Any]
) -> None:
    for backbone in (lumina, anole):
        tokens = images(backbone, 2)
        grids = tokens.unflatten(1, (backbone.grid.rows, backbone.grid.cols))
        expected = (taming_pixels(vq_tensors(), grids).clamp(-1, 1) + 1) * 127.5
        pixels = backbone.decode(tokens)
        assert pixels.dtype == torch.uint8
        assert pixels.shape == (2, 3, 16 * backbone.grid.rows, 16 * backbone.grid.cols)
        assert (pixels - expected).abs().max() <= 0.5 + 1e-2
        assert torch.equal(backbone.codebook(), vq_tensors()["quantize.embedding.weight"])
    # Lumina takes its pixels from an Anole checkpoint too.
    tokens = images(lumina, 1)
    assert torch.equal(
        load("lumina", lumina_options, pixels=anole_options["path"]).decode(tokens), lumina.decode(tokens)
    )


def test_tokens_without_pixels(lumina: Chameleon, lumina_options: dict[str, Any]) -> None:
    backbone = load("lumina", lumina_options, pixels=None)
    assert lumina.paints
    assert not backbone.paints
    for ask in (backbone.codebook, lambda: backbone.decode(images(backbone, 1))):
        with pytest.raises(RowcastError, match=r"found none: pass model\.pixels with Meta's vqgan\.ckpt"):
            ask()
    # Heads that were trained without pixels paint with them.
    assert backbone.fingerprint == lumina.fingerprint


def test_dtype_reaches_the_trunk_and_spares_the_pixels(
    lumina: Chameleon, lumina_options: dict[str, Any]
) -> None:
    coarse = load("lumina", lumina_options, dtype="bfloat16")
    step = coarse.begin(coarse.encode(["a cat"]))
    assert step.hidden.dtype == torch.bfloat16
    assert step.logits.dtype == coarse.codebook().dtype == torch.float32
    tokens = images(lumina, 1)
    assert torch.equal(coarse.decode(tokens), lumina.decode(tokens))
    exact = lumina.begin(lumina.encode(["a cat"])).logits
    assert (step.logits - exact).abs().max() < 0.1 * exact.std()
    assert coarse.fingerprint != lumina.fingerprint


def test_nothing_but_the_trunk_is_kept(lumina: Chameleon) -> None:
    assert not any("vqmodel" in name for name, _ in lumina._trunk.named_modules())
    tensors = [*lumina._trunk.parameters(), *lumina._trunk.buffers(), *lumina._image_head.parameters()]
    assert not any(tensor.is_meta or tensor.requires_grad for tensor in tensors)


def published_sizes(target: int) -> list[tuple[int, int]]:
    """The walk by which Lumina-mGPT lists its sizes: one more row if it fits, else one column less."""
    sizes, cols, rows = [], (target // 32) ** 2, 1
    while cols:
        if max(cols, rows) <= 4 * min(cols, rows):
            sizes.append((32 * cols, 32 * rows))
        if cols * (rows + 1) <= (target // 32) ** 2:
            rows += 1
        else:
            cols -= 1
    return sizes


def test_sizes_of_lumina() -> None:
    listed = {size for target in (512, 768, 1024) for size in published_sizes(target)}
    assert len(listed) == 219
    for width, height in listed:
        grid = lumina_grid(f"{width}x{height}", 512)
        assert (16 * grid.cols, 16 * grid.rows) == (width, height)
    default = lumina_grid(None, 512)
    assert (default.rows, default.cols) == (48, 48)
    for size, near in (
        ("700x700", "768x768"),
        ("1920x1080", "1344x768"),
        ("large", "768x768"),
        ("768", "768x768"),
    ):
        with pytest.raises(RowcastError, match=f"model lumina, found '{size}': pass .*= one of .*{near}"):
            lumina_grid(size, 512)


def test_sizes_of_anole() -> None:
    assert anole_grid("512x512", 512) == anole_grid(None, 512)
    assert anole_grid(None, 512).size == 1024
    with pytest.raises(RowcastError, match=r"found '768x768': pass model\.size= one of 512x512"):
        anole_grid("768x768", 512)


@pytest.mark.parametrize(
    ("name", "options", "before", "after", "unconditional"),
    [
        # 2048 wide, 512 high: more tokens than the context of the other sizes holds.
        ("lumina", {"size": "2048x512"}, [0], [8710, 8197, 8820, 8868], [8197, 8820, 8868]),
        ("anole", {}, [0], [8710, 8197], [0, 8197]),
    ],
)
def test_published_configuration(
    name: str, options: dict[str, str], before: list[int], after: list[int], unconditional: list[int]
) -> None:
    backbone = load_backbone(name, weights="random", device="meta", dtype="bfloat16", **options)
    assert isinstance(backbone, Chameleon)
    assert (backbone.codes, backbone.width, backbone.dtype) == (8192, 4096, torch.bfloat16)
    assert (backbone.device.type, backbone.paints) == ("meta", True)
    ids = backbone.prompt_ids("x")
    assert (ids[:1], ids[-len(after) :]) == (before, after)
    assert backbone.unconditional_ids(ids) == unconditional
    per_layer = 4 * 4096 * 4096 + 3 * 4096 * 11008 + 2 * 4096 + 4 * 32 * 128
    kept = sum(weight.numel() for part in backbone._hashed.values() for weight in part.parameters())
    assert kept == (65536 + 8192) * 4096 + 32 * per_layer + 4096
    # 7.01 billion with the rows of the output layer that predict no image.
    assert round((kept + (65536 - 8192) * 4096) / 1e9, 2) == 7.01


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("  ", "found an empty one"),
        ("a \ud800 cube", "expected a prompt in UTF-8, found"),
        ("a <racm3:break> cat", "found the special token <racm3:break>"),
        ("a <image> cat", "found the special token <image>"),
        ("a IMGIMGBDZ cat", "found an image code in 'a IMGIMGBDZ cat'"),
        ("cat " * 60, "at most 165 tokens, found 187"),
    ],
)
def test_prompts_are_checked(lumina: Chameleon, prompt: str, message: str) -> None:
    with pytest.raises(RowcastError, match=message):
        lumina.encode([prompt])
