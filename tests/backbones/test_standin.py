"""The tokenizer without files: bytes in, bytes out, special tokens at their published ids."""

import pytest

from backbones.standin import byte_tokenizer

pytestmark = pytest.mark.unit

SPECIAL = {"<s>": 0, "<pad>": 7, "<boi>": 100_016}


def test_one_token_a_byte() -> None:
    tokenizer = byte_tokenizer(SPECIAL, bos_token="<s>", pad_token="<pad>")
    text = "A red cube,\n\t2 €"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert len(ids) == len(text.encode())
    assert tokenizer.decode(ids) == text
    every = tokenizer.encode("".join(map(chr, range(1, 0x250))), add_special_tokens=False)
    # The lowest free ids: 256 bytes around two special tokens.
    assert set(every) <= set(range(258)) - {0, 7}


def test_special_tokens_have_their_ids_and_roles() -> None:
    tokenizer = byte_tokenizer(SPECIAL, bos_token="<s>", pad_token="<pad>")
    assert {token: tokenizer.get_vocab()[token] for token in SPECIAL} == SPECIAL
    assert (tokenizer.bos_token_id, tokenizer.pad_token_id) == (0, 7)
    assert tokenizer.encode("<s>a<boi>", add_special_tokens=False)[::2] == [0, 100_016]
    assert len(tokenizer.get_vocab()) == 256 + len(SPECIAL)
