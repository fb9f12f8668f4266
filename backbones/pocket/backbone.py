"""The pocket model behind the backbone contract: Janus, its own prompt format, weights that come along."""

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import JanusForConditionalGeneration, PreTrainedTokenizerBase

from backbones.contract import Sampling
from backbones.janus import Janus, check_size, generated, library_loop, read
from backbones.janus_loop import LibraryLoop
from backbones.janus_prompt import PromptFormat
from backbones.pocket.architecture import BOI, BOS, PAD, configuration, text_tokenizer
from backbones.pocket.photographs import all_captions
from backbones.pocket.prompt import prompt_ids
from backbones.source import Source
from backbones.words import Words

WEIGHTS = Path(__file__).parent / "weights"
SAMPLING = Sampling(guidance=2.0)


class PocketFormat(PromptFormat):
    """The captions that the model knows, between begin of sentence and begin of image."""

    special = (BOS, PAD, BOI)

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer, self.words = tokenizer, Words(tokenizer, self.special)
        self.pad = self.words[PAD]

    def ids(self, prompt: str) -> list[int]:
        return prompt_ids(self._tokenizer, prompt)


def prompts(name: str) -> Sequence[str]:
    """Every caption that the model knows."""
    return all_captions()


def load(source: Source) -> Janus:
    """Loads the weights that come with the package, or other ones of the same format from `source.path`.

    Raises:
        RowcastError: if files are missing or broken, or the size is another.
    """
    return read(source, source.path or str(WEIGHTS), SAMPLING, PocketFormat)


def greedy_reference(source: Source, prompt: str, count: int, device: torch.device) -> Int[Tensor, " count"]:
    """As Janus's: the first image tokens that transformers' own `generate` paints greedily.

    Raises:
        RowcastError: as `load`, and for a prompt that the model can't take.
    """
    place = source.path or str(WEIGHTS)
    return generated(
        source, place, prompt, count=count, device=device, sampling=SAMPLING, prompt_format=PocketFormat
    )


def reference_loop(source: Source, sampling: Sampling, device: torch.device) -> LibraryLoop:
    """As Janus's: transformers' own `generate`, for the ladder of a benchmark.

    Raises:
        RowcastError: as `load`.
    """
    return library_loop(source, source.path or str(WEIGHTS), sampling, device, PocketFormat)


def random(source: Source) -> Janus:
    """The configuration with random weights, on the default device."""
    model = JanusForConditionalGeneration._from_config(configuration(), dtype=source.torch_dtype)
    check_size(source.size, model.model.vqmodel, source.name)
    return Janus(model, PocketFormat(text_tokenizer()), name=source.name, sampling=SAMPLING)
