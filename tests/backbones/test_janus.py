"""The Janus adapter on a tiny random checkpoint: transformers' own generation is the oracle."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import JanusConfig, JanusForConditionalGeneration, LlamaConfig, PreTrainedTokenizerFast
from transformers.models.janus.configuration_janus import JanusVisionConfig, JanusVQVAEConfig

from backbones.errors import RowcastError
from backbones.janus import BOI, Janus, load_janus
from tests.backbones.walk import images, walk

pytestmark = pytest.mark.unit

WORDS = ["<s>", "</s>", "<pad>", BOI, "<unk>", "<|User|>:", "<|Assistant|>:", "a", "red", "cube", "sphere"]
CODES, WIDTH, ROWS = 48, 32, 4


def tiny_janus() -> JanusForConditionalGeneration:
    text = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        pad_token_id=2,
    )
    vision = JanusVisionConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        image_size=16,
        patch_size=4,
        projection_dim=WIDTH,
        num_image_tokens=ROWS * ROWS,
    )
    vq = JanusVQVAEConfig(
        embed_dim=8,
        num_embeddings=CODES,
        latent_channels=32,
        base_channels=32,
        channel_multiplier=[1, 1],
        num_res_blocks=1,
        num_patches=ROWS,
        projection_dim=WIDTH,
        image_token_embed_dim=WIDTH,
    )
    torch.manual_seed(0)
    model = JanusForConditionalGeneration(
        JanusConfig(text_config=text, vision_config=vision, vq_config=vq, image_token_id=4)
    )
    core = model.model
    spread = (core.language_model, core.generation_embeddings, core.generation_aligner, core.generation_head)
    for module in spread:
        for parameter in module.parameters():
            if parameter.dim() == 2:
                torch.nn.init.normal_(parameter, std=1.5 * parameter.shape[-1] ** -0.5)
            else:
                torch.nn.init.normal_(parameter, mean=1, std=0.3)
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    folder = tmp_path_factory.mktemp("janus")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        pad_token="<pad>",
        unk_token="<unk>",
        additional_special_tokens=[BOI],
    ).save_pretrained(folder)
    tiny_janus().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def backbone(folder: Path) -> Janus:
    return load_janus(folder)


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_facts(backbone: Janus) -> None:
    assert (backbone.grid.rows, backbone.grid.cols, backbone.codes, backbone.width) == (4, 4, CODES, WIDTH)
    assert backbone.sampling.guidance == 5
    assert backbone.sampling.top_k is None
    assert backbone.prompt_ids("a red cube") == [0, 5, 7, 8, 9, 6, 3]
    assert backbone.unconditional_ids([0, 5, 7, 8, 9, 6, 3]) == [0, 2, 2, 2, 2, 2, 3]
    assert backbone.encode(["a cube"]).mask.all()


def test_greedy_equals_generate(backbone: Janus, folder: Path) -> None:
    model = JanusForConditionalGeneration.from_pretrained(folder)
    model.generation_config.update(bos_token_id=0, eos_token_id=1, pad_token_id=2)
    model.generation_config.generation_kwargs = {"boi_token_id": 3}
    ids = torch.tensor([backbone.prompt_ids("a red cube")])
    expected = model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        generation_mode="image",
        do_sample=False,
        guidance_scale=5.0,
        max_length=32,
    )
    step, tokens = backbone.begin(backbone.encode(["a red cube"])), []
    for position in range(backbone.grid.size):
        conditional, unconditional = step.logits[:, -1].chunk(2)
        tokens.append((unconditional + 5 * (conditional - unconditional)).argmax(-1, keepdim=True))
        if position < backbone.grid.size - 1:
            step = backbone.forward(tokens[-1])
    painted = torch.cat(tokens, 1)
    assert torch.equal(painted, expected)
    assert len(painted.unique()) > 4
    pixels = model.decode_image_tokens(expected).permute(0, 3, 1, 2)
    assert ((pixels.clamp(-1, 1) + 1) * 127.5 - backbone.decode(painted)).abs().max() <= 0.5 + 1e-3


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


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("  ", "found an empty one"),
        ("a <begin_of_image> cube", "found a special token"),
        ("a red " * 20, "at most 16 tokens, found 44"),
    ],
)
def test_prompts_are_checked(backbone: Janus, prompt: str, message: str) -> None:
    with pytest.raises(RowcastError, match=message):
        backbone.encode([prompt])


def test_missing_places_are_named(copy: Path) -> None:
    with pytest.raises(
        RowcastError, match=r"folder or hub id of a Janus model, found '.*nowhere'.*model\.path"
    ):
        load_janus(copy / "nowhere")
    for name in ("model.safetensors", "tokenizer_config.json", "config.json"):
        (copy / name).unlink()
        with pytest.raises(RowcastError, match=name):
            load_janus(copy)


def test_truncated_weights_are_refused(copy: Path) -> None:
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(RowcastError, match="expected loadable Janus weights"):
        load_janus(copy)


def test_a_missing_tensor_is_refused(copy: Path) -> None:
    tensors = load_file(copy / "model.safetensors")
    del tensors["model.generation_head.vision_head.weight"]
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(RowcastError, match=r"found none for model\.generation_head\.vision_head\.weight"):
        load_janus(copy)


def test_another_kind_of_model_is_refused(copy: Path) -> None:
    (copy / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(RowcastError, match="expected a Janus model, found model type 'llama'"):
        load_janus(copy)


def test_a_foreign_tokenizer_is_refused(copy: Path) -> None:
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["other"] = tokenizer["model"]["vocab"].pop(BOI)
    tokenizer["added_tokens"] = []
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = json.loads((copy / "tokenizer_config.json").read_text())
    config.pop("additional_special_tokens", None)
    config.pop("extra_special_tokens", None)
    (copy / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(RowcastError, match="found no <begin_of_image>"):
        load_janus(copy)
