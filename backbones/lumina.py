"""Lumina-mGPT and Anole: two Chameleons that paint, as facts on top of the shared trunk.

Loads a folder or hub id as published (`Alpha-VLLM/Lumina-mGPT-7B-*`, `leloy/Anole-7b-v0.1-hf`). The trunk is
transformers' `ChameleonModel`. Its class with an output layer bars every image token, so the image rows of
that layer are applied here. Lumina-mGPT ends every row with a token of its own; Anole does not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from transformers import ChameleonConfig, ChameleonModel
from transformers.models.chameleon.configuration_chameleon import ChameleonVQVAEConfig

from backbones.chameleon_prompt import (
    TOKEN,
    PromptFormat,
    anole_format,
    anole_grid,
    lumina_format,
    lumina_grid,
    special_tokens,
)
from backbones.chameleon_trunk import (
    CONTEXT,
    drop_encoder,
    published_config,
    read_image_head,
    read_trunk,
    vocabulary_of,
)
from backbones.chameleon_vocabulary import BOS, PAD, image_ids
from backbones.chameleon_vq import ChameleonPixels, find_pixels, published_pixels, read_pixels
from backbones.contract import Grid, Sampling
from backbones.errors import RowcastError
from backbones.pixels import to_uint8
from backbones.pretrained import check_agreement, read_config, read_tokenizer
from backbones.prompts import scenes
from backbones.shards import open_shards
from backbones.source import Source, fetch, require_files
from backbones.standin import byte_tokenizer
from backbones.trunk import SharedTrunk
from backbones.words import Words

FILES = ("*.json", "*.safetensors")


@dataclass(frozen=True, kw_only=True)
class Member:
    """What a model of the family adds to the trunk."""

    sampling: Sampling
    prompt_format: Callable[[Words, Grid], PromptFormat]
    grid: Callable[[str | None, int], Grid]
    example: str
    """A hub id, for messages."""


MEMBERS = {
    "lumina": Member(
        # As in the README of Lumina-mGPT; the default in its code is a guidance of 3.
        sampling=Sampling(guidance=4.0, top_k=2000),
        prompt_format=lumina_format,
        grid=lumina_grid,
        example="Alpha-VLLM/Lumina-mGPT-7B-768",
    ),
    "anole": Member(
        # The defaults of Anole's own text2image.py, read in its code and never compared with its images.
        sampling=Sampling(guidance=3.0, temperature=0.7, top_p=0.9),
        prompt_format=anole_format,
        grid=anole_grid,
        example="leloy/Anole-7b-v0.1-hf",
    ),
}


class Chameleon(SharedTrunk):
    """Lumina-mGPT or Anole behind the backbone contract."""

    def __init__(
        self,
        *,
        name: str,
        trunk: ChameleonModel,
        image_head: nn.Linear,
        prompt_format: PromptFormat,
        grid: Grid,
        pixels: ChameleonPixels | None,
    ) -> None:
        """Takes `trunk` over: it loses its final norm.

        Raises:
            RowcastError: if a whole image does not fit into the context, or `pixels` has other codes or
                another scale.
        """
        images = image_ids(vocabulary_of(trunk.config))
        table = trunk.embed_tokens.weight.detach()
        super().__init__(
            name=name,
            trunk=trunk,
            image_head=image_head,
            image_table=table[images],
            grid=grid,
            sampling=MEMBERS[name].sampling,
            pad=prompt_format.pad,
            hashed={},  # what images are fed and predicted by are rows of the trunk's and the head's weights
            row_end=None if prompt_format.row_end is None else table[prompt_format.row_end],
            vq=pixels,
        )
        self._format, self._words = prompt_format, prompt_format.words
        self._images = frozenset(images)
        self._check_context()
        self._check_pixels()

    def prompt_ids(self, prompt: str) -> list[int]:
        ids = self._format.ids(prompt)
        if self._images.intersection(ids):  # to some tokenizers, names like any other
            raise RowcastError(f"expected plain words, found an image code in {prompt[:80]!r}: remove it")
        return ids

    def unconditional_ids(self, ids: list[int]) -> list[int]:
        return [*self._format.unconditional]

    def codebook(self) -> Float[Tensor, "V d"]:
        return self._pixels().codebook.weight

    @torch.no_grad()
    def decode(self, tokens: Int[Tensor, "N P"]) -> UInt8[Tensor, "N 3 H W"]:
        self.check_images(tokens)
        return to_uint8(self._pixels()(tokens.unflatten(1, (self.grid.rows, self.grid.cols))))

    def _check_context(self) -> None:
        least = self._slots.before(self.grid.size) + len(self._format.ids("."))
        context = self._trunk.config.max_position_embeddings
        if context < least:
            raise RowcastError(
                f"expected a context of at least {least} tokens for {self.grid.cols * TOKEN}x"
                f"{self.grid.rows * TOKEN} pixels, found {context} in config.json: pass a smaller model.size"
            )

    def _check_pixels(self) -> None:
        if not self.paints:
            return
        found = len(self.codebook()), self._pixels().scale
        if found != (self.codes, TOKEN):
            raise RowcastError(
                f"expected a VQ of {self.codes} codes of {TOKEN}x{TOKEN} pixels, found {found[0]} codes of "
                f"{found[1]}x{found[1]}: pass model.pixels with the VQ of Chameleon"
            )

    def _pixels(self) -> ChameleonPixels:
        if not isinstance(self.vq, ChameleonPixels):
            raise RowcastError(
                f"expected VQ weights to make pixels of {self.name} tokens, found none: pass model.pixels "
                "with Meta's vqgan.ckpt or leloy/Anole-7b-v0.1-vqvae-hf"
            )
        return self.vq


def prompts(name: str) -> Sequence[str]:
    """What the family is rolled out on when the user gives no prompts."""
    return scenes()


def load(source: Source) -> Chameleon:
    """Loads published weights onto the CPU.

    Raises:
        RowcastError: if files are missing, broken or of another kind of model, or the size is another.
    """
    source.refuse("text_encoder")
    folder = fetch(source.place(MEMBERS[source.name].example), source.revision, FILES)
    require_files(folder, "config.json", "model*.safetensors")
    config = read_config(folder, ChameleonConfig, MEMBERS[source.name].example)
    grid = _grid(source, config)
    prompt_format = _read_format(source, folder, config, grid)
    shards = open_shards(folder)
    # What is small comes first: a mistake there shows before the trunk is read.
    image_head = read_image_head(shards, config, source.torch_dtype)
    if source.pixels is None:
        pixels = find_pixels(shards.names, shards.read, str(folder))
    else:
        pixels = read_pixels(source.pixels)
    return Chameleon(
        name=source.name,
        trunk=read_trunk(shards, config, source.torch_dtype),
        image_head=image_head,
        prompt_format=prompt_format,
        grid=grid,
        pixels=pixels,
    )


def random(source: Source) -> Chameleon:
    """The published 7B configuration with random weights and a stand-in tokenizer, on the default device."""
    source.refuse("tokenizer", "pixels", "text_encoder")
    config = published_config()
    grid = _grid(source, config)
    if grid.rows * (grid.cols + 1) >= CONTEXT:
        config.max_position_embeddings = 2 * CONTEXT
    trunk = ChameleonModel._from_config(config, dtype=source.torch_dtype)
    drop_encoder(trunk)
    codes = len(image_ids(vocabulary_of(config)))
    tokenizer = byte_tokenizer(vocabulary_of(config), bos_token=BOS, pad_token=PAD)
    return Chameleon(
        name=source.name,
        trunk=trunk,
        image_head=nn.Linear(config.hidden_size, codes, bias=False, dtype=source.torch_dtype),
        prompt_format=MEMBERS[source.name].prompt_format(Words(tokenizer, special_tokens(grid)), grid),
        grid=grid,
        pixels=published_pixels(),
    )


def _grid(source: Source, config: ChameleonConfig) -> Grid:
    """The grid of `model.size`; what is offered depends on the images of the VQ."""
    assert isinstance(config.vq_config, ChameleonVQVAEConfig)
    return MEMBERS[source.name].grid(source.size, config.vq_config.resolution)


def _read_format(source: Source, folder: Path, config: ChameleonConfig, grid: Grid) -> PromptFormat:
    """The prompt format, with the text tokenizer beside the weights or where `model.tokenizer` says."""
    if source.tokenizer is not None:
        folder = fetch(source.tokenizer, None, ("tokenizer*.json",), "model.tokenizer")
    if not (folder / "tokenizer.json").is_file():
        raise RowcastError(
            f"expected tokenizer.json in {folder}, found no such file: pass "
            "model.tokenizer=Alpha-VLLM/Lumina-mGPT-7B-768, whose text tokenizer the whole family shares"
        )
    special = special_tokens(grid)
    tokenizer = read_tokenizer(folder, special)
    advice = "pass model.tokenizer=Alpha-VLLM/Lumina-mGPT-7B-768"
    check_agreement(tokenizer, vocabulary_of(config), folder, advice)
    return MEMBERS[source.name].prompt_format(Words(tokenizer, special), grid)
