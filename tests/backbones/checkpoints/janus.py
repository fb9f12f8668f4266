"""A tiny random Janus-Pro in the layout of `deepseek-community/Janus-Pro-*`."""

from pathlib import Path
from typing import Any

import torch
from huggingface_hub import save_torch_state_dict
from transformers import JanusConfig, JanusForConditionalGeneration, LlamaConfig
from transformers.models.janus.configuration_janus import JanusVisionConfig, JanusVQVAEConfig

from tests.backbones.checkpoints.files import BYTES, older_config, write_byte_tokenizer, write_json
from tests.backbones.checkpoints.weights import spread

SPECIAL = (
    "<｜begin▁of▁sentence｜>",  # noqa: RUF001
    "<｜end▁of▁sentence｜>",  # noqa: RUF001
    "<｜▁pad▁｜>",  # noqa: RUF001
    "<begin_of_image>",
    "<end_of_image>",
    "<image_placeholder>",
    "<|User|>",
    "<|Assistant|>",
)
BOS, EOS, PAD, BOI, _, IMAGE, USER, ASSISTANT = range(BYTES, BYTES + len(SPECIAL))
CODES, WIDTH, ROWS = 48, 32, 4


def tiny_janus() -> JanusForConditionalGeneration:
    text = LlamaConfig(
        vocab_size=BYTES + len(SPECIAL),
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
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
        JanusConfig(text_config=text, vision_config=vision, vq_config=vq, image_token_id=IMAGE)
    )
    core = model.model
    spread((core.language_model, core.generation_embeddings, core.generation_aligner, core.generation_head))
    return model.eval()


def write_janus(folder: Path, shard: str = "1GB") -> dict[str, Any]:
    """Writes the checkpoint, in shards of at most `shard`; what `load_backbone("janus", ...)` takes."""
    model = tiny_janus()
    tensors = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    save_torch_state_dict(tensors, folder, max_shard_size=shard)
    write_json(folder / "config.json", older_config(model.config, rope_scaling=None))
    write_json(
        folder / "generation_config.json",
        {
            "boi_token_id": BOI,
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "guidance_scale": 5,
            "pad_token_id": PAD,
        },
    )
    # Its rules are those of `tokenizer.json`, not those of the class that is named here.
    tokenizer_config = {
        "bos_token": SPECIAL[0],
        "eos_token": SPECIAL[1],
        "pad_token": SPECIAL[2],
        "clean_up_tokenization_spaces": False,
        "extra_special_tokens": {"boi_token": SPECIAL[3], "eoi_token": SPECIAL[4], "image_token": SPECIAL[5]},
        "model_max_length": 16384,
        "processor_class": "JanusProcessor",
        "tokenizer_class": "LlamaTokenizerFast",
        "unk_token": None,
        "use_default_system_prompt": True,
    }
    write_byte_tokenizer(folder, SPECIAL, tokenizer_config, pre_tokenizer())
    return {"path": str(folder)}


def pre_tokenizer() -> dict[str, Any]:
    """Lines, single digits, then bytes."""
    lines = {"type": "Split", "pattern": {"Regex": "[\r\n]"}, "behavior": "Isolated", "invert": False}
    digits = {"type": "Digits", "individual_digits": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"type": "Sequence", "pretokenizers": [lines, digits, level]}
