"""A text tokenizer as prompt formats use it: plain words in, special tokens by name."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from backbones.errors import RowcastError


class Words:
    """A tokenizer whose special tokens were looked up once, and which finds them in prompts."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, special: Sequence[str]) -> None:
        """Looks up the `special` tokens that a prompt format needs; the tokenizer has them."""
        vocabulary = tokenizer.get_vocab()
        self._tokenizer = tokenizer
        self._ids = {name: vocabulary[name] for name in special}
        reserved = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
        self._reserved = reserved.union(self._ids.values())

    def __getitem__(self, special: str) -> int:
        """The id of one of the special tokens asked for at the start."""
        return self._ids[special]

    def check(self, prompt: str) -> None:
        """Raises RowcastError if the prompt is empty, no text, or has a special token in it."""
        if not prompt.strip():
            raise RowcastError("expected a prompt, found an empty one: say what to paint")
        try:
            prompt.encode()
        except UnicodeEncodeError as error:  # what a shell or a file gave was in another encoding
            raise RowcastError(f"expected a prompt in UTF-8, found {prompt[:80]!r}: write it anew") from error
        found = self._reserved.intersection(self.encode(prompt))
        if found:
            token = self._tokenizer.convert_ids_to_tokens(min(found))
            raise RowcastError(
                f"expected plain words, found the special token {token} in {prompt[:80]!r}: remove it"
            )

    def spell(self, ids: Sequence[int]) -> list[tuple[int, str]]:
        """Each id and its text, special tokens by name."""
        return [(i, str(self._tokenizer.decode([i]))) for i in ids]

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with none added at its ends."""
        return self._tokenizer.encode(text, add_special_tokens=False)
