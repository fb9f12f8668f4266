"""Captions as LlamaGen reads them: cleaned, then the states of a T5 encoder, one for each of its tokens."""

import hashlib
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedTokenizerBase, T5Config, T5EncoderModel

from backbones.captions import clean
from backbones.errors import RowcastError
from backbones.pretrained import read_config, read_model, read_tokenizer
from backbones.source import fetch, require_files
from backbones.words import Words

OPTION = "model.text_encoder"
EXAMPLE = "google/flan-t5-xl"
FILES = ("*.json", "*.safetensors")
END = "</s>"
LONGEST = 120
"""Tokens of a caption, its end included; the rest is cut off, as in training."""
KEPT = 4096
"""Captions whose features are kept: those of a training set, which asks for them in every epoch."""


class CaptionReader(ABC):
    """What turns captions into features of width F."""

    words: Words | None = None
    """The tokenizer, if there is one."""

    @abstractmethod
    def ids(self, caption: str) -> list[int]:
        """One id a token, at most `LONGEST`."""

    @abstractmethod
    def features(self, caption: str) -> Float[Tensor, "L F"]:
        """One vector a token, on the CPU."""

    def forget(self) -> None:  # noqa: B027
        """Drops what is kept from earlier captions: another device may round it otherwise."""


class T5Captions(CaptionReader):
    """Captions through a T5 encoder.

    Each is read alone and without padding: what it becomes never depends on the others in its batch.
    """

    def __init__(self, encoder: T5EncoderModel, tokenizer: PreTrainedTokenizerBase, where: str) -> None:
        """Takes an encoder and its tokenizer.

        Args:
            encoder: whoever moves it calls `forget`.
            tokenizer: its own.
            where: the tokenizer's place, for the message.

        Raises:
            RowcastError: if the tokenizer does not end captions as T5's does.
        """
        self._encoder, self._tokenizer, self.words = encoder, tokenizer, Words(tokenizer, [END])
        self._features: dict[str, Tensor] = {}
        if tokenizer("a").input_ids[-1] != tokenizer.convert_tokens_to_ids(END):
            raise RowcastError(
                f"expected a tokenizer that ends captions with {END}, found another in {where}: "
                f"use the one that was published with the encoder, as in {EXAMPLE}"
            )
        # Characters that T5 does not know become its unknown token, in training too.
        self._reserved = {
            i
            for i, token in tokenizer.added_tokens_decoder.items()
            if token.special and i != tokenizer.unk_token_id
        }

    def ids(self, caption: str) -> list[int]:
        return self._ids(clean(caption), caption)

    @torch.no_grad()
    def features(self, caption: str) -> Float[Tensor, "L F"]:
        text = clean(caption)
        known = self._features.pop(text, None)
        if known is None:
            ids = torch.tensor([self._ids(text, caption)], device=self._encoder.device)
            known = self._encoder(input_ids=ids).last_hidden_state[0].cpu()
        self._features[text] = known  # the most recent stands last
        if len(self._features) > KEPT:
            del self._features[next(iter(self._features))]
        return known

    def forget(self) -> None:
        self._features.clear()

    def _ids(self, text: str, caption: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, truncation=True, max_length=LONGEST).input_ids
        if self._reserved.intersection(ids[:-1]):
            raise RowcastError(f"expected plain words, found a special token in {caption[:80]!r}: remove it")
        return ids


class StandInCaptions(CaptionReader):
    """Random features, seeded by the words: for weights=random, where no encoder is read.

    They have the right shape and equal words have equal ones, but they mean nothing.
    """

    def __init__(self, width: int) -> None:
        self._width = width

    def ids(self, caption: str) -> list[int]:
        words = [*clean(caption).split()[: LONGEST - 1], END]
        return [int.from_bytes(hashlib.sha256(word.encode()).digest()[:4]) for word in words]

    def features(self, caption: str) -> Float[Tensor, "L F"]:
        rows = []
        for seed in self.ids(caption):
            generator = torch.Generator("cpu").manual_seed(seed)
            rows.append(torch.randn(self._width, generator=generator, device="cpu"))
        return torch.stack(rows)


def read_captions(place: str, dtype: torch.dtype) -> tuple[T5Captions, T5EncoderModel]:
    """The caption reader of a folder or hub id, and its encoder, on the CPU.

    A checkpoint of a whole T5 will do; its decoder is left on the disk.

    Raises:
        RowcastError: if files are missing, broken or of another kind of model.
    """
    folder = fetch(place, None, FILES, OPTION)
    require_files(folder, "config.json", "tokenizer.json", "model*.safetensors", option=OPTION)
    config = read_config(folder, T5Config, EXAMPLE)
    encoder = read_model(T5EncoderModel, folder, config, dtype, needed=("shared.", "encoder."), option=OPTION)
    return T5Captions(encoder, read_tokenizer(folder, [END]), str(folder)), encoder
