"""A tiny random T5 in the layout of `google/flan-t5-xl`: encoder and decoder in shards, unigram tokenizer."""

from pathlib import Path

import torch
from huggingface_hub import save_torch_state_dict
from transformers import T5Config, T5ForConditionalGeneration

from tests.backbones.checkpoints.files import write_json
from tests.backbones.checkpoints.weights import spread

FEATURES, EXTRA = 32, 4
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,:;-_'\"!?<>"
PIECES = ("▁", *LETTERS, "▁a", "▁the")
"""Other words are spelled, so that words of equal length take equally many tokens."""
PAD, END, UNKNOWN = 0, 1, 2


def write_t5(folder: Path, shard: str = "50KB") -> None:
    """Writes weights in shards of at most `shard`, configuration and tokenizer files."""
    folder.mkdir()
    model = tiny_t5()
    tensors = {name: tensor for name, tensor in model.state_dict().items() if "embed_tokens" not in name}
    tensors["lm_head.weight"] = torch.randn_like(model.shared.weight)  # not tied, unlike transformers' own
    save_torch_state_dict(tensors, folder, max_shard_size=shard)
    fields = {"architectures": ["T5ForConditionalGeneration"], "tie_word_embeddings": False}
    write_json(folder / "config.json", model.config.to_dict() | fields)
    write_tokenizer(folder)


def tiny_t5() -> T5ForConditionalGeneration:
    config = T5Config(
        vocab_size=3 + len(PIECES) + EXTRA,
        d_model=FEATURES,
        d_kv=16,
        d_ff=48,
        num_layers=2,
        num_heads=2,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=16,
        feed_forward_proj="gated-gelu",
        dropout_rate=0.1,
    )
    torch.manual_seed(0)
    model = T5ForConditionalGeneration(config)
    spread((model.encoder,), gain=1.0)
    return model.eval()


def write_tokenizer(folder: Path) -> None:
    """Unigram pieces between words, an end after them, spare tokens from the last id downwards."""
    extra = [f"<extra_id_{i}>" for i in reversed(range(EXTRA))]
    special = ["<pad>", "</s>", "<unk>"]
    scored = [[piece, -float(len(PIECES) - i) / 10 - 2] for i, piece in enumerate(PIECES)]
    vocabulary = [[token, 0.0] for token in special] + scored + [[token, 0.0] for token in extra]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    ids = {piece: i for i, (piece, _) in enumerate(vocabulary)}
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    end = {"SpecialToken": {"id": "</s>", "type_id": 0}}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": ids[token], "content": token, **flags} for token in special + extra],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, end],
            "pair": [first, end, second, end],
            "special_tokens": {"</s>": {"id": "</s>", "ids": [END], "tokens": ["</s>"]}},
        },
        "decoder": space,
        "model": {"type": "Unigram", "unk_id": UNKNOWN, "vocab": vocabulary, "byte_fallback": False},
    }
    write_json(folder / "tokenizer.json", tokenizer)
    roles = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    write_json(folder / "special_tokens_map.json", {"additional_special_tokens": extra[::-1], **roles})
    write_json(
        folder / "tokenizer_config.json",
        {
            "additional_special_tokens": extra[::-1],
            "extra_ids": EXTRA,
            "model_max_length": 512,
            "sp_model_kwargs": {},
            "tokenizer_class": "T5Tokenizer",
            **roles,
        },
    )
