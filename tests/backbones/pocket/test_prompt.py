"""The pocket prompt format."""

import pytest

from backbones.errors import RowcastError
from backbones.pocket.architecture import text_tokenizer
from backbones.pocket.photographs import all_captions
from backbones.pocket.prompt import left_padded, prompt_ids, unconditional_ids

pytestmark = pytest.mark.unit


def test_every_caption_is_known_word_by_word():
    tokenizer = text_tokenizer()
    for prompt in all_captions():
        ids = prompt_ids(tokenizer, prompt)
        assert tokenizer.convert_ids_to_tokens(ids) == ["<s>", *prompt.split(), "<begin_of_image>"]
        assert tokenizer.unk_token_id not in ids


def test_the_unconditional_prompt_keeps_both_ends_and_the_length():
    assert unconditional_ids([0, 7, 8, 9, 2], pad=1) == [0, 1, 1, 1, 2]


def test_padding_is_on_the_left():
    ids, mask = left_padded([[0, 7, 2], [0, 7, 8, 2]], pad=1)
    assert ids.tolist() == [[1, 0, 7, 2], [0, 7, 8, 2]]
    assert mask.tolist() == [[False, True, True, True], [True] * 4]


@pytest.mark.parametrize(
    ("prompt", "message"),
    [("", "found 0"), ("a " * 31, "found 31"), ("a red cat on blue", "'cat'"), ("a <pad> coat", "'<pad>'")],
)
def test_what_the_model_cannot_take_is_refused(prompt, message):
    with pytest.raises(RowcastError, match=message):
        prompt_ids(text_tokenizer(), prompt)
