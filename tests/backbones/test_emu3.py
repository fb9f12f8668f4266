"""The Emu3 adapter on a tiny random checkpoint: transformers' own model and generation are the oracles."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import Emu3ForConditionalGeneration

from backbones import emu3
from backbones.contract import Sampling
from backbones.emu3 import Emu3, published_config, sizes
from backbones.emu3_prompt import AVOIDED, SPECIAL, visual_token
from backbones.emu3_prompt import FIRST_CODE as PUBLISHED_FIRST_CODE
from backbones.errors import RowcastError
from backbones.registry import load_backbone
from backbones.source import Source
from tests.backbones.checkpoints.emu3 import (
    BOS,
    CODES,
    COLS,
    FIRST_CODE,
    IMAGE_START,
    IMAGE_TOKENS,
    PAD,
    ROW_END,
    ROWS,
    WIDTH,
    write_emu3,
)
from tests.backbones.walk import greedy, images, walk

pytestmark = pytest.mark.unit

SIZE = f"{COLS * 8}x{ROWS * 8}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("emu3")
    write_emu3(folder)
    return folder


@pytest.fixture(scope="module")
def backbone(folder: Path) -> Emu3:
    return load(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> Emu3ForConditionalGeneration:
    return Emu3ForConditionalGeneration.from_pretrained(folder).eval()


def load(folder: Path, **options: str) -> Emu3:
    backbone = load_backbone("emu3", **{"path": str(folder), "device": "cpu", "size": SIZE, **options})
    assert isinstance(backbone, Emu3)
    return backbone


def vocabulary(folder: Path) -> dict[str, int]:
    return json.loads((folder / "vocab.json").read_text())


def as_bytes(folder: Path, text: str) -> list[int]:
    known = vocabulary(folder)
    return [known[char] for char in text.replace(" ", "Ġ")]


def test_facts(backbone: Emu3) -> None:
    assert (backbone.grid.rows, backbone.grid.cols, backbone.codes, backbone.width) == (
        ROWS,
        COLS,
        CODES,
        WIDTH,
    )
    assert (backbone.sampling.guidance, backbone.sampling.temperature) == (3, 1)
    assert (backbone.sampling.top_k, backbone.sampling.top_p) == (2048, None)
    assert backbone._trunk.config.rope_parameters["rope_theta"] == 500


def test_prompt_layout(backbone: Emu3, folder: Path) -> None:
    # The image header: rows first, then columns.
    header = [IMAGE_START, *as_bytes(folder, "4*6"), IMAGE_TOKENS]
    words = as_bytes(folder, "a red cube masterpiece, film grained, best quality.")
    ids = backbone.prompt_ids("a red cube")
    assert ids == [BOS, *words, *header]
    assert backbone.unconditional_ids(ids) == [BOS, *as_bytes(folder, AVOIDED), *header]
    assert AVOIDED.startswith("lowres, bad anatomy, bad hands, text, error, missing fingers, extra digit, ")
    assert AVOIDED.endswith("jpeg artifacts, signature, watermark, username, blurry.")
    assert len(AVOIDED.split(", ")) == 17


def test_published_ids(folder: Path) -> None:
    # The tiny vocabulary has the published order: only the words before it are fewer.
    known, shift = vocabulary(folder), 151_643 - PAD
    for name, place in (SPECIAL | {visual_token(0): PUBLISHED_FIRST_CODE}).items():
        assert known[name] + shift == place
    assert known[visual_token(CODES - 1)] == FIRST_CODE + CODES - 1


def test_greedy_equals_generate(backbone: Emu3, model: Emu3ForConditionalGeneration, folder: Path) -> None:
    ids = torch.tensor([backbone.prompt_ids("a red cube")])
    avoided = torch.tensor([backbone.unconditional_ids([])])
    eof, eoi, eos = (vocabulary(folder)[name] for name in ("<|extra_201|>", "<|image end|>", "<|extra_204|>"))
    visual = list(range(FIRST_CODE, FIRST_CODE + CODES))
    plan = ([visual] * COLS + [[ROW_END]]) * ROWS + [[eof], [eoi], [eos]]
    sequence = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        negative_prompt_ids=avoided,
        negative_prompt_attention_mask=torch.ones_like(avoided),
        prefix_allowed_tokens_fn=lambda _, seen: plan[len(seen) - ids.shape[1]],
        guidance_scale=3.0,
        do_sample=False,
        max_new_tokens=len(plan),
    )[:, ids.shape[1] :]
    assert sequence[0, -3:].tolist() == [eof, eoi, eos]
    expected = sequence[0, :-3].view(ROWS, COLS + 1)[:, :-1].flatten() - FIRST_CODE
    painted = greedy(backbone, "a red cube")
    assert torch.equal(painted, expected)
    assert len(painted.unique()) > 8
    source = Source(name="emu3", path=str(folder), size=SIZE)
    for count in (1, COLS + 1, ROWS * COLS):
        reference = emu3.greedy_reference(source, "a red cube", count, torch.device("cpu"))
        assert torch.equal(reference, expected[:count])
    drawn = emu3.reference_loop(source, Sampling(guidance=3.0), torch.device("cpu"))("a red cube", 1)
    assert drawn.shape == expected.shape
    assert not torch.equal(drawn, expected)
    pixels = model.decode_image_tokens(image_tokens=sequence, height=ROWS, width=COLS)
    assert (to_bytes(pixels) - backbone.decode(painted[None])).abs().max() <= 0.5 + 1e-3


def to_bytes(pixels: Tensor) -> Tensor:
    return (pixels.clamp(-1, 1) + 1) * 127.5


def test_states_and_head_are_the_models_own(backbone: Emu3, model: Emu3ForConditionalGeneration) -> None:
    ids, tokens = backbone.prompt_ids("a red cube"), images(backbone, 1)
    # Written out: every row ends in the forced token, but the last image token and its row end are never fed.
    ends = torch.full((ROWS, 1), ROW_END)
    fed = torch.cat([tokens.view(ROWS, COLS) + FIRST_CODE, ends], 1).flatten()[:-2]
    with torch.no_grad():
        out = model(input_ids=torch.cat([torch.tensor(ids), fed])[None], output_hidden_states=True)
    # Token 0 of each row is emitted by the header or by the row end before it.
    emits = [len(ids) - 1 + y * (COLS + 1) + x for y in range(ROWS) for x in range(COLS)]
    logits = out.logits[0, emits][:, FIRST_CODE : FIRST_CODE + CODES]
    prompt = backbone.encode(["a red cube"])
    states = backbone.states(prompt, tokens)[0]
    assert torch.allclose(backbone.head(states), logits, rtol=0, atol=1e-5)
    assert torch.allclose(walk(backbone, prompt, tokens, 5).logits[0], logits, rtol=0, atol=1e-5)
    # transformers' last hidden state is already normed: through our head it gives other logits.
    assert not torch.allclose(backbone.head(out.hidden_states[-1][0, emits]), logits, atol=0.1)


def test_pixels_are_the_first_frame_of_each_image(
    backbone: Emu3, model: Emu3ForConditionalGeneration
) -> None:
    tokens = images(backbone, 3)
    video = model.model.vqmodel.decode(tokens.view(3, 1, ROWS, COLS))
    assert video.shape == (3, 4, 3, ROWS * 8, COLS * 8)
    painted = backbone.decode(tokens)
    assert painted.dtype == torch.uint8
    assert (to_bytes(video[:, 0]) - painted).abs().max() <= 0.5 + 1e-3
    assert (painted[0] != painted[1]).any()


def test_codebook_and_embed_are_rows_of_the_model(
    backbone: Emu3, model: Emu3ForConditionalGeneration
) -> None:
    assert torch.equal(backbone.codebook(), model.model.vqmodel.quantize.embedding.weight)
    codes = torch.tensor([[0, 5, CODES - 1]])
    assert torch.equal(backbone.embed(codes), model.model.text_model.embed_tokens(codes + FIRST_CODE))


def test_the_full_output_layer_is_not_kept(backbone: Emu3) -> None:
    weight = backbone._image_head.weight
    assert weight.shape == (CODES, WIDTH)
    assert weight.untyped_storage().nbytes() == CODES * WIDTH * 4


def test_dropout_is_off(backbone: Emu3) -> None:
    assert backbone._trunk.config.attention_dropout == 0.1
    prompt = backbone.encode(["a red cube"])
    assert torch.equal(backbone.begin(prompt).hidden, backbone.begin(prompt).hidden)


def test_both_generations_of_names_load(backbone: Emu3, tmp_path: Path) -> None:
    write_emu3(tmp_path, shard="1GB", first_names=False)
    assert load(tmp_path).fingerprint == backbone.fingerprint


def test_low_precision_spares_the_pixels(backbone: Emu3, folder: Path) -> None:
    coarse = load(folder, dtype="bfloat16")
    assert coarse.dtype == torch.bfloat16
    assert torch.equal(coarse.codebook(), backbone.codebook())
    tokens = images(backbone, 2)
    assert torch.equal(coarse.decode(tokens), backbone.decode(tokens))


def test_published_sizes() -> None:
    known = sizes(published_config())
    assert next(iter(known)) == "720x720"
    written = {size: (grid.rows, grid.cols) for size, grid in known.items()}
    assert written["720x720"] == (90, 90)
    assert written["832x624"] == (78, 104)
    assert written["544x960"] == (120, 68)
    assert written["512x512"] == (64, 64)
    assert len(written) == 14
    # All of them leave room for the prompt.
    assert max(rows * (cols + 1) for rows, cols in written.values()) < 9216 - 800


def test_published_shape() -> None:
    backbone = load_backbone("emu3", weights="random", device="meta", dtype="bfloat16", size="624x832")
    assert isinstance(backbone, Emu3)
    assert (backbone.grid.rows, backbone.grid.cols, backbone.codes, backbone.width) == (104, 78, 32768, 4096)
    kept = (backbone._trunk, backbone._norm, backbone._image_head)
    # 8.49 B with the output rows of the words, which are not kept.
    assert sum(p.numel() for m in kept for p in m.parameters()) + (184_622 - 32_768) * 4096 == 8_492_011_520
    ids = backbone.prompt_ids("a cat")
    assert ids[0] == 151_849
    assert (ids[-8], ids[-1]) == (151_852, 151_851)  # the stand-in writes bytes: 104*78


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("  ", "found an empty one"),
        ("a \ud800 cube", "expected a prompt in UTF-8, found"),
        ("a <|image start|> cube", r"found the special token <\|image start\|> in 'a <"),
        ("a <|visual token 000003|> cube", r"found the special token <\|visual token 000003\|>"),
        ("a <|extra_200|> cube", r"found the special token <\|extra_200\|>"),
        ("a red " * 40, "at most 273 tokens, found "),
    ],
)
def test_prompts_are_checked(backbone: Emu3, prompt: str, message: str) -> None:
    with pytest.raises(RowcastError, match=message):
        backbone.encode([prompt])
