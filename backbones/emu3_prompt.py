"""Prompts of Emu3-Gen: words with the released additions, and a header that says the image's size."""

from transformers import PreTrainedTokenizerBase

from backbones.contract import Grid
from backbones.words import Words

BOS, PAD, ROW_END = "<|extra_203|>", "<|endoftext|>", "<|extra_200|>"
IMAGE_START, IMAGE_TOKENS = "<|image start|>", "<|image token|>"
"""They stand before and after the image's size."""
SPECIAL = {PAD: 151_643, ROW_END: 151_846, BOS: 151_849, IMAGE_TOKENS: 151_851, IMAGE_START: 151_852}
"""Published ids. Only stand-ins are built with them: a checkpoint brings its own."""
FIRST_CODE = 151_854

LIKED = " masterpiece, film grained, best quality."
"""What the released script appends to every prompt."""
AVOIDED = (
    "lowres, bad anatomy, bad hands, text, error, missing fingers, extra digit, fewer digits, cropped, "
    "worst quality, low quality, normal quality, jpeg artifacts, signature, watermark, username, blurry."
)
"""The released script's negative prompt."""


class PromptFormat:
    """Emu3-Gen's prompts for images of one grid: words, then the image header with its rows and columns."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, grid: Grid) -> None:
        self.words = Words(tokenizer, tuple(SPECIAL))
        self.pad, self.row_end = self.words[PAD], self.words[ROW_END]
        size = self.words.encode(f"{grid.rows}*{grid.cols}")
        self._header = [self.words[IMAGE_START], *size, self.words[IMAGE_TOKENS]]
        self.negative = self._sequence(AVOIDED)
        """Token ids of the unconditional prompt, with the image header as in the released script."""

    def ids(self, prompt: str) -> list[int]:
        """Token ids of a prompt; the last one predicts image token 0.

        Raises:
            RowcastError: if the prompt is empty or holds a special token.
        """
        self.words.check(prompt)
        return self._sequence(prompt + LIKED)

    def _sequence(self, text: str) -> list[int]:
        return [self.words[BOS], *self.words.encode(text), *self._header]


def visual_token(code: int) -> str:
    """The vocabulary's name of an image code."""
    return f"<|visual token {code:06d}|>"
