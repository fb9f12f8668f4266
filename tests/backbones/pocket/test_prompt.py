"""The pocket prompt format."""

import pytest

from backbones.errors import RowcastError
from backbones.pocket.architecture import text_tokenizer
from backbones.pocket.photographs import all_captions
from backbones.pocket.prompt import prompt_ids

pytestmark = pytest.mark.unit


def test_every_caption_is_known_word_by_word():
    tokenizer = text_tokenizer()
    for prompt in all_captions():
        ids = prompt_ids(tokenizer, prompt)
        assert tokenizer.convert_ids_to_tokens(ids) == ["<s>", *prompt.split(), "<begin_of_image>"]
        assert tokenizer.unk_token_id not in ids


@pytest.mark.parametrize(
    ("prompt", "message"),
    [("", "found 0"), ("a " * 31, "found 31"), ("a red cat on blue", "'cat'"), ("a <pad> coat", "'<pad>'")],
)
def test_what_the_model_cannot_take_is_refused(prompt, message):
    with pytest.raises(RowcastError, match=message):
        prompt_ids(text_tokenizer(), prompt)
