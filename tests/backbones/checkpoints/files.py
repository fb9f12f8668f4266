"""What lies beside the weights of a published checkpoint: a byte-level tokenizer, older configurations."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedConfig

BYTES = 256
"""Ids below are bytes; special tokens follow in their order."""
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")


def write_byte_tokenizer(
    folder: Path, special: Sequence[str], config: Mapping[str, Any], pre_tokenizer: Mapping[str, Any]
) -> dict[str, int]:
    """`tokenizer.json` and `tokenizer_config.json`; one token a byte. Returns the vocabulary."""
    vocabulary = {char: i for i, char in enumerate(sorted(ByteLevel.alphabet()))}
    vocabulary |= {token: BYTES + i for i, token in enumerate(special)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": vocabulary[token], "content": token, **flags} for token in special]
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": "",
        "end_of_word_suffix": "",
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": vocabulary,
        "merges": [],
    }
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": BYTE_LEVEL,
        "model": model,
    }
    write_json(folder / "tokenizer.json", tokenizer)
    decoder = {str(token["id"]): {k: v for k, v in token.items() if k != "id"} for token in added}
    write_json(folder / "tokenizer_config.json", {"added_tokens_decoder": decoder, **config})
    return vocabulary


def older_config(config: PreTrainedConfig, rope_scaling: Mapping[str, Any] | None) -> dict[str, Any]:
    """A configuration with the rope fields of the transformers releases that saved the published files."""
    fields = config.to_dict()
    text = fields["text_config"]
    rope = text.pop("rope_parameters")
    text |= {"rope_theta": rope["rope_theta"], "rope_scaling": rope_scaling}
    return fields
