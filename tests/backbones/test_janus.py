"""The Janus adapter on a tiny random checkpoint: transformers' own generation is the oracle."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import JanusForConditionalGeneration

from backbones import janus
from backbones.contract import Sampling
from backbones.errors import RowcastError
from backbones.janus import Janus
from backbones.registry import load_backbone
from backbones.source import Source
from tests.backbones.checkpoints.janus import (
    ASSISTANT,
    BOI,
    BOS,
    CODES,
    EOS,
    PAD,
    ROWS,
    USER,
    WIDTH,
    tiny_janus,
    write_janus,
)
from tests.backbones.walk import greedy, images, walk

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("janus")
    write_janus(folder)
    return folder


@pytest.fixture(scope="module")
def backbone(folder: Path) -> Janus:
    return load(folder)


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def load(folder: Path, **options: str) -> Janus:
    backbone = load_backbone("janus", path=str(folder), device="cpu", **options)
    assert isinstance(backbone, Janus)
    return backbone


def change_json(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def as_bytes(folder: Path, text: str) -> list[int]:
    known = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    return [known[char] for char in text.replace(" ", "Ġ").replace("\n", "Ċ")]


def test_facts(backbone: Janus) -> None:
    assert (backbone.grid.rows, backbone.grid.cols, backbone.codes, backbone.width) == (
        ROWS,
        ROWS,
        CODES,
        WIDTH,
    )
    assert (backbone.sampling.guidance, backbone.sampling.temperature) == (5, 1)
    assert backbone.sampling.top_k is backbone.sampling.top_p is None
    assert backbone._trunk.config.rope_parameters["rope_theta"] == 500


def test_prompt_layout(backbone: Janus, folder: Path) -> None:
    # One user turn: role tokens, words as bytes, two line feeds.
    words = as_bytes(folder, ": a red cube\n\n")
    expected = [BOS, USER, *words, ASSISTANT, *as_bytes(folder, ":"), BOI]
    assert backbone.prompt_ids("a red cube") == backbone.prompt_ids("  a red cube\n") == expected
    assert backbone.unconditional_ids(expected) == [BOS, *[PAD] * (len(expected) - 2), BOI]
    prompt = backbone.encode(["a red cube", "a cube"])
    # The padding of the shorter prompt is masked in both branches, the pads in place of words are not.
    assert prompt.mask.sum(-1).tolist() == [len(expected), len(expected) - 4] * 2


def test_greedy_equals_generate(backbone: Janus, folder: Path) -> None:
    model = JanusForConditionalGeneration.from_pretrained(folder)
    model.generation_config.update(bos_token_id=BOS, eos_token_id=EOS, pad_token_id=PAD)
    model.generation_config.generation_kwargs = {"boi_token_id": BOI}
    ids = torch.tensor([backbone.prompt_ids("a red cube")])
    expected = model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        generation_mode="image",
        do_sample=False,
        guidance_scale=5.0,
        max_length=128,
    )
    painted = greedy(backbone, "a red cube")
    assert torch.equal(painted, expected[0])
    assert len(painted.unique()) > 4
    source = Source(name="janus", path=str(folder))
    for count in (1, 5, 16):
        reference = janus.greedy_reference(source, "a red cube", count, torch.device("cpu"))
        assert torch.equal(reference, expected[0, :count])
    loop = janus.reference_loop(source, Sampling(guidance=5.0, temperature=0.0), torch.device("cpu"))
    assert torch.equal(loop("a red cube", 0), expected[0])
    drawn = janus.reference_loop(source, Sampling(guidance=5.0), torch.device("cpu"))
    assert torch.equal(drawn("a red cube", 1), drawn("a red cube", 1))
    assert not torch.equal(drawn("a red cube", 1), drawn("a red cube", 2))
    pixels = model.decode_image_tokens(expected).permute(0, 3, 1, 2)
    assert ((pixels.clamp(-1, 1) + 1) * 127.5 - backbone.decode(painted[None])).abs().max() <= 0.5 + 1e-3


def test_states_and_head_are_the_models_own(backbone: Janus, folder: Path) -> None:
    core = JanusForConditionalGeneration.from_pretrained(folder).eval().model
    prompt, tokens = backbone.encode(["a red cube"]), images(backbone, 1)
    fed = core.generation_aligner(core.generation_embeddings(tokens[:, :-1])).repeat(2, 1, 1)
    with torch.no_grad():
        out = core.language_model(
            inputs_embeds=torch.cat([prompt.embeds, fed], 1), output_hidden_states=True, use_cache=False
        )
        logits = core.generation_head(out.last_hidden_state)[:, -backbone.grid.size :]
    states = backbone.states(prompt, tokens)
    assert torch.allclose(backbone.head(states), logits, rtol=0, atol=1e-5)
    assert torch.allclose(walk(backbone, prompt, tokens, 5).logits, logits, rtol=0, atol=1e-5)
    # transformers' last hidden state is already normed: through our head it gives other logits.
    posted = out.hidden_states[-1][:, -backbone.grid.size :]
    assert not torch.allclose(backbone.head(posted), logits, atol=0.1)


def test_codebook_is_normalised_and_embed_is_aligned(backbone: Janus) -> None:
    assert backbone.codebook().shape == (CODES, 8)
    assert torch.allclose(backbone.codebook().norm(dim=-1), torch.ones(CODES), atol=1e-6)
    assert backbone.embed(torch.zeros(2, 3, dtype=torch.long)).shape == (2, 3, WIDTH)


def test_shards_make_the_same_model(backbone: Janus, tmp_path: Path) -> None:
    write_janus(tmp_path, shard="100KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 3
    assert load(tmp_path).fingerprint == backbone.fingerprint


def test_low_precision_spares_the_pixels(backbone: Janus, folder: Path) -> None:
    coarse = load(folder, dtype="bfloat16")
    assert coarse.dtype == torch.bfloat16
    assert torch.equal(coarse.codebook(), backbone.codebook())
    tokens = images(backbone, 2)
    assert torch.equal(coarse.decode(tokens), backbone.decode(tokens))


@pytest.mark.parametrize(
    ("name", "trunk", "width", "special"),
    [
        ("janus", 6_490_935_296, 4096, (100_015, 100_016)),
        ("janus_1b", 1_442_940_928, 2048, (100_002, 100_003)),
    ],
)
def test_published_shapes(name: str, trunk: int, width: int, special: tuple[int, int]) -> None:
    backbone = load_backbone(name, weights="random", device="meta", dtype="bfloat16", size="384x384")
    assert isinstance(backbone, Janus)
    assert (backbone.grid.rows, backbone.grid.cols, backbone.codes, backbone.width) == (24, 24, 16384, width)
    # Without the text head: 102,400 words, then attention, gated feed-forward and norms.
    assert sum(p.numel() for m in (backbone._trunk, backbone._norm) for p in m.parameters()) == trunk
    ids = backbone.prompt_ids("a cat")
    assert (ids[0], backbone.unconditional_ids(ids)[1], ids[-1]) == (100_000, *special)
    assert backbone.device.type == "meta"
    assert backbone.dtype == torch.bfloat16
    assert backbone.embed(torch.zeros(2, 3, dtype=torch.long)).shape == (2, 3, width)
    assert backbone._image_head.vision_head.weight.shape == (16384, width)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("  ", "found an empty one"),
        ("a \ud800 cube", "expected a prompt in UTF-8, found"),
        ("a <begin_of_image> cube", "found the special token <begin_of_image> in 'a <begin"),
        ("a <|User|> cube", r"found the special token <\|User\|>"),
        ("a red " * 20, "at most 112 tokens, found "),
    ],
)
def test_prompts_are_checked(backbone: Janus, prompt: str, message: str) -> None:
    with pytest.raises(RowcastError, match=message):
        backbone.encode([prompt])


def test_options_it_has_no_use_for_are_refused(folder: Path) -> None:
    for option in ("tokenizer", "pixels", "text_encoder"):
        with pytest.raises(RowcastError, match=f"no option model.{option} for model janus, found 'x'"):
            load(folder, **{option: "x"})
    with pytest.raises(RowcastError, match=r"a size of model janus, found '384x384': .* one of 8x8"):
        load(folder, size="384x384")
    assert load(folder, size="8x8").grid.rows == ROWS


def test_missing_files_are_named(copy: Path) -> None:
    with pytest.raises(
        RowcastError, match=r"weights for janus, found none: .* deepseek-community/Janus-Pro-1B"
    ):
        load_backbone("janus")
    with pytest.raises(RowcastError, match=r"folder or a hub id, found '.*nowhere'.*model\.path"):
        load(copy / "nowhere")
    for name in (r"model\*.safetensors", "tokenizer.json", "tokenizer_config.json", "config.json"):
        (copy / name.replace("\\*", "")).unlink()
        with pytest.raises(RowcastError, match=name):
            load(copy)


def test_broken_files_are_refused(copy: Path) -> None:
    for name, kind in (
        ("model.safetensors", "weights"),
        ("tokenizer.json", "tokenizer files"),
        ("config.json", r"config\.json"),
    ):
        file = copy / name
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        with pytest.raises(
            RowcastError, match=f"expected loadable {kind} in .*, found .*: fetch or save"
        ) as caught:
            load(copy)
        assert "\n" not in str(caught.value)


def test_a_missing_tensor_is_refused(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensors = load_file(copy / "model.safetensors")
    del tensors["model.generation_head.vision_head.weight"]
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(RowcastError, match=r"found none for model\.generation_head\.vision_head\.weight"):
        load(copy)
    assert capsys.readouterr().err == ""


def test_weights_that_painting_does_not_use_may_be_missing(backbone: Janus, copy: Path) -> None:
    tensors = {n: t for n, t in load_file(copy / "model.safetensors").items() if "vision_model" not in n}
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    assert load(copy).fingerprint == backbone.fingerprint


def test_a_config_of_another_shape_is_refused(copy: Path) -> None:
    text = json.loads((copy / "config.json").read_text())["text_config"]
    change_json(copy / "config.json", text_config=text | {"num_hidden_layers": 1})
    with pytest.raises(RowcastError, match=r"found model\.language_model\.layers\.1\..* beside them"):
        load(copy)
    change_json(copy / "config.json", text_config=text | {"intermediate_size": 40})
    shapes = r"mlp\.down_proj\.weight of shape \[32, 40\] as config\.json says, found \[32, 48\] in"
    with pytest.raises(RowcastError, match=shapes):
        load(copy)


def test_a_quantised_copy_is_refused(copy: Path) -> None:
    name = "model.language_model.layers.0.mlp.up_proj.weight"
    tensors = load_file(copy / "model.safetensors")
    tensors[name] = tensors[name].to(torch.int8)
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(RowcastError, match=rf"expected floating-point weights, found I8 for {name} in"):
        load(copy)


def test_an_index_leads_nowhere_else(copy: Path, tmp_path: Path) -> None:
    (copy / "model.safetensors").rename(tmp_path / "elsewhere.safetensors")
    names = dict.fromkeys(load_file(tmp_path / "elsewhere.safetensors"), "../elsewhere.safetensors")
    index = {"metadata": {}, "weight_map": names}
    (copy / "model-of.safetensors").touch()
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(RowcastError, match=r"found '\.\./elsewhere\.safetensors' for .*, which is no file"):
        load(copy)


def test_another_kind_of_model_is_refused(copy: Path) -> None:
    # As deepseek-ai/Janus-Pro-7B has it.
    change_json(copy / "config.json", model_type="multi_modality")
    with pytest.raises(RowcastError, match=r"type 'janus', found 'multi_modality' .* deepseek-community"):
        load(copy)


def test_a_foreign_tokenizer_is_refused(copy: Path) -> None:
    original = (copy / "tokenizer.json").read_text()
    (copy / "tokenizer.json").write_text(original.replace("<begin_of_image>", "<other>"))
    with pytest.raises(RowcastError, match="found no <begin_of_image>: use the tokenizer"):
        load(copy)
    # That of the other size has the same names at other ids.
    change_json(copy / "config.json", image_token_id=200)
    (copy / "tokenizer.json").write_text(original)
    with pytest.raises(RowcastError, match=r"id 200 for <image_placeholder> .*, found 261 in the tokenizer"):
        load(copy)


def test_the_tiny_model_is_one_that_shows_mistakes() -> None:
    norm = tiny_janus().model.language_model.norm.weight
    assert (norm - 1).abs().mean() > 0.1
