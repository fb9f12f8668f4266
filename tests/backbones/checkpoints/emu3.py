"""A tiny random Emu3-Gen in the layout of `BAAI/Emu3-Gen-hf`."""

from pathlib import Path
from typing import Any

import torch
from huggingface_hub import save_torch_state_dict
from torch import Tensor
from transformers import Emu3Config, Emu3ForConditionalGeneration
from transformers.models.emu3.configuration_emu3 import Emu3TextConfig, Emu3VQVAEConfig

from tests.backbones.checkpoints.files import (
    BYTE_LEVEL,
    BYTES,
    older_config,
    write_byte_tokenizer,
    write_json,
)
from tests.backbones.checkpoints.weights import spread

CODES, WIDTH, ROWS, COLS = 48, 32, 4, 6
# In the published order: 205 spare tokens, the first of them renamed, then those of images.
SPARE = ("<image>", *(f"<|extra_{i}|>" for i in range(1, 205)))
VISUAL = tuple(f"<|visual token {code:06d}|>" for code in range(CODES))
IMAGES = ("<|image token|>", "<|image start|>", "<|image end|>")
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *SPARE, *IMAGES, *VISUAL)
PAD, ROW_END, BOS, EOS, IMAGE_TOKENS, IMAGE_START, FIRST_CODE = (
    BYTES + offset for offset in (0, 203, 206, 207, 208, 209, 211)
)
AREA = 40 * 40
"""Pixels: room for 48x32 among others."""


def tiny_emu3(vocabulary: dict[str, int]) -> Emu3ForConditionalGeneration:
    text = Emu3TextConfig(
        vocab_size=BYTES + len(SPECIAL),
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=300,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
        attention_dropout=0.1,
    )
    vq = Emu3VQVAEConfig(
        codebook_size=CODES,
        base_channels=32,
        channel_multiplier=[1, 1, 1, 1],
        num_res_blocks=1,
        hidden_size=32,
    )
    torch.manual_seed(0)
    model = Emu3ForConditionalGeneration(
        Emu3Config(text_config=text, vq_config=vq, vocabulary_map=vocabulary, image_area=AREA)
    )
    spread((model.model.text_model, model.lm_head))
    return model.eval()


def write_emu3(folder: Path, shard: str = "100KB", first_names: bool = True) -> dict[str, Any]:
    """Writes the checkpoint, in shards of at most `shard`; what `load_backbone("emu3", ...)` takes.

    With the tensor names of the transformers release that the published files were made with, or with those
    of later ones.
    """
    # Like the published one, it names a slow class; its rules are those of `tokenizer.json` all the same.
    tokenizer_config = {
        "add_prefix_space": False,
        "bos_token": "<|extra_203|>",
        "eos_token": "<|extra_204|>",
        "pad_token": "<|endoftext|>",
        "unk_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False,
        "extra_special_tokens": {
            "boi_token": "<|image start|>",
            "eof_token": "<|extra_201|>",
            "eoi_token": "<|image end|>",
            "image_token": "<image>",
            "image_wrapper_token": "<|image token|>",
        },
        "model_max_length": 1000000000000000019884624838656,
        "processor_class": "Emu3Processor",
        "tokenizer_class": "GPT2Tokenizer",
    }
    vocabulary = write_byte_tokenizer(folder, SPECIAL, tokenizer_config, BYTE_LEVEL)
    write_json(folder / "vocab.json", vocabulary)
    (folder / "merges.txt").write_text("#version: 0.2\n")
    model = tiny_emu3(vocabulary)
    tensors = model.state_dict()
    save_torch_state_dict(first_release(tensors) if first_names else tensors, folder, max_shard_size=shard)
    write_json(folder / "config.json", older_config(model.config, rope_scaling={"rope_type": "default"}))
    write_json(
        folder / "generation_config.json",
        {"do_sample": True, "eos_token_id": EOS, "max_new_tokens": 50000, "pad_token_id": PAD, "top_k": 2048},
    )
    return {"path": str(folder), "size": f"{COLS * 8}x{ROWS * 8}"}


def first_release(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors under the names of transformers 4.48."""
    renames = {
        "model.text_model.": "text_model.model.",
        "lm_head.": "text_model.lm_head.",
        "model.vqmodel.": "vqmodel.",
    }
    return {
        new + name.removeprefix(old): tensor
        for name, tensor in tensors.items()
        for old, new in renames.items()
        if name.startswith(old)
    }
