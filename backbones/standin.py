"""A text tokenizer without files, for random weights: bytes, and special tokens at their places."""

from collections.abc import Mapping

from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast


def byte_tokenizer(special: Mapping[str, int], **roles: str) -> PreTrainedTokenizerFast:
    """One token a byte; `special` tokens have the given ids, the bytes the lowest free ones.

    Args:
        special: text and id of each special token.
        roles: which of them is `bos_token`, `pad_token` and so on.
    """
    taken = set(special.values())
    free = (i for i in range(256 + len(taken)) if i not in taken)
    vocabulary = dict(zip(sorted(ByteLevel.alphabet()), free, strict=False)) | dict(special)
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, additional_special_tokens=list(special), **roles
    )
