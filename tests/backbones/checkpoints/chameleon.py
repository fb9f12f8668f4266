"""Tiny random Lumina-mGPT and Anole checkpoints as published, and the VQ weights that come from elsewhere."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.processors import TemplateProcessing
from torch import Tensor
from transformers import ChameleonConfig, ChameleonModel

from tests.backbones.checkpoints.files import write_json

CODES, WIDTH, HEADS = 64, 32, 4
BOS, PAD, FIRST_CODE = 0, 1, 4
EOI, BOI, END_TURN, IMAGE, ROW_END, FIRST_SIZE = 68, 69, 70, 71, 72, 72
"""In the published order; the size of n cells is `FIRST_SIZE + n`."""
FIRST_WORD = 77
SIDE = 64
"""Pixels along the side of the VQ's images: 512 as published."""
CODE_ORDER = [(code * 37 + 11) % CODES for code in range(CODES)]
"""The id of a code is `FIRST_CODE + CODE_ORDER[code]`: nothing may assume that they ascend together."""


def write_lumina(folder: Path, devices: int = 1, **config: Any) -> dict[str, Any]:
    """Writes the checkpoint and Meta's VQ beside it; what `load_backbone("lumina", ...)` takes.

    Args:
        folder: for both.
        devices: that the original was trained on, each with query and key norms of its own.
        config: fields of config.json to change.
    """
    trunk = folder / "Lumina-mGPT-7B-768"
    fields = (
        published_fields() | {"mask_image_logits": False, "dropout": 0.05, "z_loss_weight": 1e-5} | config
    )
    fields["architectures"] = ["ChameleonXLLMXForConditionalGeneration"]
    write_json_and_tokenizer(trunk, fields)
    write_shards(trunk, trunk_tensors(fields, devices), 2)
    vq = folder / "tokenizer" / "vqgan.ckpt"
    vq.parent.mkdir()
    torch.save({"state_dict": vq_tensors() | {"loss.logvar": torch.zeros(())}, "global_step": 7}, vq)
    return {"path": str(trunk), "pixels": str(vq), "size": "96x64"}


def write_anole(folder: Path) -> dict[str, Any]:
    """Writes the checkpoint, which holds the whole VQ; what `load_backbone("anole", ...)` takes."""
    fields = published_fields()
    tensors = trunk_tensors(fields, devices=HEADS)
    tensors |= {f"model.vqmodel.{name}": tensor for name, tensor in vq_tensors().items()}
    write_json_and_tokenizer(folder, fields)
    write_shards(folder, tensors, 3)
    return {"path": str(folder)}


def published_fields() -> dict[str, Any]:
    """config.json of transformers 4.43, with its names of the VQ's fields and of the rope's."""
    vq = {"ch": 32, "ch_mult": [1, 1, 2, 2, 2], "n_embed": CODES, "z_channels": 16, "resolution": SIDE}
    return {
        "architectures": ["ChameleonForConditionalGeneration"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "boi_token_id": BOI,
        "bos_token_id": 1,  # wrong in the published files too
        "eoi_token_id": EOI,
        "eos_token_id": 2,
        "hidden_act": "silu",
        "hidden_size": WIDTH,
        "image_token_id": IMAGE,
        "initializer_range": 0.02,
        "intermediate_size": 48,
        "max_position_embeddings": 192,
        "mlp_bias": False,
        "model_parallel_size": 1,
        "model_type": "chameleon",
        "num_attention_heads": HEADS,
        "num_hidden_layers": 2,
        "num_key_value_heads": HEADS,
        "rms_norm_eps": 1e-05,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "swin_norm": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.43.3",
        "use_cache": True,
        "vocab_size": len(vocabulary()),
        "vocabulary_map": vocabulary(),
        "vq_config": {
            "attn_resolutions": [],
            "double_z": False,
            "model_type": "chameleon_vqgan",
            "out_ch": 3,
            **vq,
        },
    }


def vocabulary() -> dict[str, int]:
    """Names of all tokens; words are single bytes and two pairs."""
    marks = {"<s>": BOS, "<pad>": PAD, "</s>": 2, "<unk>": 3, "<eoss>": EOI, "<racm3:break>": BOI}
    marks |= {"<reserved08706>": END_TURN, "<image>": IMAGE, "<reserved08799>": ROW_END}
    marks |= {f"<reserved{8800 + cells:05d}>": FIRST_SIZE + cells for cells in range(1, 5)}
    codes = {code_name(code): FIRST_CODE + place for code, place in enumerate(CODE_ORDER)}
    words = [*sorted(ByteLevel.alphabet()), "ca", "cat"]
    return marks | codes | {word: FIRST_WORD + i for i, word in enumerate(words)}


def code_name(code: int) -> str:
    """Digits as letters, A for 0."""
    return "IMGIMG" + "".join(chr(ord("A") + int(digit)) for digit in str(code)) + "Z"


def write_json_and_tokenizer(folder: Path, fields: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", fields)
    write_json(folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2})
    write_tokenizer(folder)


def write_tokenizer(folder: Path) -> None:
    """Byte-level, image codes and marks cut out first; encoding with special tokens would add a begin."""
    names = vocabulary()
    tokenizer = Tokenizer(BPE(vocab=names, merges=[("c", "a"), ("ca", "t")]))
    code = Split(Regex("(IMGIMG)((A|B|C|D|E|F|G|H|I|J){1,4})Z"), "isolated")
    tokenizer.pre_tokenizer = Sequence([code, ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = ByteLevelDecoder()
    tokenizer.add_special_tokens([name for name in names if name.startswith("<") and len(name) > 1])
    tokenizer.add_tokens([AddedToken(name, normalized=False) for name in names if name.startswith("IMGIMG")])
    tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS)])
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    write_json(folder / "special_tokens_map.json", named)
    config = {"add_bos_token": True, "add_eos_token": False, "legacy": False, "model_max_length": 10**30}
    write_json(
        folder / "tokenizer_config.json",
        {**named, **config, "sep_token": "<reserved08706>", "tokenizer_class": "LlamaTokenizer"},
    )


def trunk_tensors(fields: dict[str, Any], devices: int) -> dict[str, Tensor]:
    """Trunk and output layer in bf16, by their published names, with values that tell mistakes apart."""
    generator = torch.Generator().manual_seed(0)
    with torch.device("meta"):
        model = ChameleonModel(ChameleonConfig(**fields))
    tensors: dict[str, Tensor] = {}
    for name, like in model.state_dict().items():
        if name.startswith("vqmodel."):
            continue
        shape = (devices, like.shape[1]) if "q_norm" in name or "k_norm" in name else like.shape
        values = torch.randn(shape, generator=generator)
        if "norm" in name:
            values = values * 0.3 + (0 if name.endswith("bias") else 1)
        else:
            values *= 1.5 * shape[-1] ** -0.5
        tensors[f"model.{name}"] = values.bfloat16()
    head = torch.randn(fields["vocab_size"], fields["hidden_size"], generator=generator)
    return tensors | {"lm_head.weight": (1.5 * WIDTH**-0.5 * head).bfloat16()}


def write_shards(folder: Path, tensors: dict[str, Tensor], count: int) -> None:
    """Safetensors files with an index, as save_pretrained splits large models."""
    names, weight_map = list(tensors), {}
    for i in range(count):
        file = f"model-{i + 1:05d}-of-{count:05d}.safetensors"
        part = names[i * len(names) // count : (i + 1) * len(names) // count]
        save_file(
            {name: tensors[name].contiguous() for name in part}, folder / file, metadata={"format": "pt"}
        )
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": sum(t.nbytes for t in tensors.values())}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def vq_tensors(
    channels: tuple[int, ...] = (32, 32, 64, 64, 64), latent: int = 16, depth: int = 8, blocks: int = 1
) -> dict[str, Tensor]:
    """The VQ's tensors as taming-transformers names them; `channels` of the finest level first."""
    generator = torch.Generator().manual_seed(1)
    tensors: dict[str, Tensor] = {}

    def conv(name: str, inputs: int, outputs: int, side: int = 3) -> None:
        scale = (inputs * side * side) ** -0.5
        tensors[f"{name}.weight"] = torch.randn(outputs, inputs, side, side, generator=generator) * scale
        tensors[f"{name}.bias"] = torch.randn(outputs, generator=generator) * 0.1

    def norm(name: str, width: int) -> None:
        tensors[f"{name}.weight"] = 1 + torch.randn(width, generator=generator) * 0.3
        tensors[f"{name}.bias"] = torch.randn(width, generator=generator) * 0.3

    def resnet(name: str, inputs: int, outputs: int) -> None:
        norm(f"{name}.norm1", inputs)
        conv(f"{name}.conv1", inputs, outputs)
        norm(f"{name}.norm2", outputs)
        conv(f"{name}.conv2", outputs, outputs)
        if inputs != outputs:
            conv(f"{name}.nin_shortcut", inputs, outputs, 1)

    tensors["quantize.embedding.weight"] = torch.randn(CODES, depth, generator=generator)
    conv("encoder.conv_in", 3, channels[0])
    conv("quant_conv", latent, depth, 1)
    conv("post_quant_conv", depth, latent, 1)
    width = channels[-1]
    conv("decoder.conv_in", latent, width)
    for block in ("block_1", "block_2"):
        resnet(f"decoder.mid.{block}", width, width)
    norm("decoder.mid.attn_1.norm", width)
    for part in ("q", "k", "v", "proj_out"):
        conv(f"decoder.mid.attn_1.{part}", width, width, 1)
    for level in reversed(range(len(channels))):
        for block in range(blocks + 1):
            resnet(f"decoder.up.{level}.block.{block}", width, channels[level])
            width = channels[level]
        if level > 0:
            conv(f"decoder.up.{level}.upsample.conv", width, width)
    norm("decoder.norm_out", width)
    conv("decoder.conv_out", width, 3)
    return tensors
