"""Prompts of the Janus family: ids from begin of sentence to begin of image, and the unconditional twin."""

from abc import ABC, abstractmethod
from typing import ClassVar

from transformers import PreTrainedTokenizerBase

from backbones.words import Words

BOS, EOS, PAD = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"  # noqa: RUF001
BOI, EOI, IMAGE = "<begin_of_image>", "<end_of_image>", "<image_placeholder>"


class PromptFormat(ABC):
    """How a member of the family writes its prompts, with a tokenizer that knows the `special` tokens."""

    special: ClassVar[tuple[str, ...]]
    words: Words
    pad: int
    """Id that stands for every word in the unconditional prompt."""

    @abstractmethod
    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None: ...

    @abstractmethod
    def ids(self, prompt: str) -> list[int]:
        """Token ids from begin of sentence to begin of image.

        Raises:
            RowcastError: if the prompt is empty or holds what the model does not know as words.
        """


class ProFormat(PromptFormat):
    """Janus-Pro's prompt: one user turn, then the begin-of-image token."""

    special = (BOS, EOS, PAD, BOI)

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.words = Words(tokenizer, self.special)
        self.bos, _, self.pad, self.boi = (self.words[token] for token in self.special)

    def ids(self, prompt: str) -> list[int]:
        self.words.check(prompt)
        turn = self.words.encode(f"<|User|>: {prompt.strip()}\n\n<|Assistant|>:")
        return [self.bos, *turn, self.boi]


def unconditional_ids(ids: list[int], pad: int) -> list[int]:
    """The same prompt with its words replaced by pads: attended, unlike the padding of short prompts."""
    return [ids[0], *[pad] * (len(ids) - 2), ids[-1]]
