"""LlamaGen behind the backbone contract: one trunk, fed with classes or with captions."""

import re
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence
from transformers.models.janus.modeling_janus import JanusVQVAE

from backbones.caption_features import LONGEST, CaptionReader
from backbones.contract import Grid, Prompt, Sampling
from backbones.errors import RowcastError
from backbones.llamagen_trunk import Generator
from backbones.pixels import to_uint8
from backbones.trunk import SharedTrunk


class LlamaGen(SharedTrunk):
    """What both models share."""

    vq: JanusVQVAE | None

    def __init__(
        self,
        *,
        name: str,
        sampling: Sampling,
        generator: Generator,
        grid: Grid,
        vq: JanusVQVAE | None,
        **hashed: nn.Module,
    ) -> None:
        """Takes the parts over; `hashed` are further modules that decide what a prompt is fed as."""
        super().__init__(
            name=name,
            trunk=generator.trunk,
            image_head=nn.Sequential(generator.output),  # packing replaces layers inside a module only
            image_table=generator.table.weight,
            grid=grid,
            sampling=sampling,
            pad=0,
            hashed={"image_embeddings": generator.table, **hashed},
            vq=vq,
        )

    def positions(self, prompt: Prompt, image_slots: int) -> Int[Tensor, "1 S"]:
        """Image token i is at position i in every row; the slots of the condition lie before 0.

        They are told apart although they all mean the same: transformers takes repeated positions for
        several sequences in one row.
        """
        return torch.arange(-prompt.mask.shape[1], image_slots, device=prompt.mask.device)[None]

    def codebook(self) -> Float[Tensor, "V d"]:
        # The decoder normalises its codes, whatever their stored length.
        return normalize(self._painter().quantize.embedding.weight, dim=-1)

    @torch.no_grad()
    def decode(self, tokens: Int[Tensor, "N P"]) -> UInt8[Tensor, "N 3 H W"]:
        self.check_images(tokens)
        return to_uint8(self._painter().decode(tokens))  # pyright: ignore[reportArgumentType]

    def _painter(self) -> JanusVQVAE:
        if self.vq is None:
            raise RowcastError(
                "expected a VQ to paint with, found none: pass model.pixels with the file that was published "
                f"with the generator (vq_ds16_{self.name.removeprefix('llamagen_')}.pt)"
            )
        return self.vq


class ClassLlamaGen(LlamaGen):
    """Paints classes. A prompt is a number and takes one slot; the table's last row stands for no class."""

    def prompt_ids(self, prompt: str) -> list[int]:
        classes, number = self._trunk.config.vocab_size - 1, prompt.strip()
        if not re.fullmatch(r"0|[1-9][0-9]{0,8}", number) or int(number) >= classes:
            raise RowcastError(
                f"expected the number of a class, 0 to {classes - 1}, found {prompt[:80]!r}: "
                f"pass one of those, without zeros in front; model=llamagen_t2i takes words"
            )
        return [int(number)]

    def unconditional_ids(self, ids: list[int]) -> list[int]:
        return [self._trunk.config.vocab_size - 1] * len(ids)


class CaptionLlamaGen(LlamaGen):
    """Paints captions. A prompt takes one slot for each token of the text encoder.

    The published code feeds 120 slots and masks those before the caption. No token sees these and no
    position counts them, so they are left out here.
    """

    def __init__(self, *, captions: CaptionReader, projection: nn.Sequential, **parts: Any) -> None:
        """Takes the parts over.

        Args:
            captions: what reads prompts.
            projection: from features to what the trunk is fed.
            parts: as `LlamaGen`; the generator's conditions are the learned vectors of the unconditional
                branch, projected, and a text encoder behind `captions` moves, and is hashed, with the rest.
        """
        super().__init__(projection=projection, **parts)
        self._captions, self._projection, self._words = captions, projection, captions.words

    def prompt_ids(self, prompt: str) -> list[int]:
        return self._captions.ids(prompt)

    def unconditional_ids(self, ids: list[int]) -> list[int]:
        """Which learned vectors stand in for a caption of as many tokens: the last ones."""
        return list(range(LONGEST - len(ids), LONGEST))

    @torch.no_grad()
    def encode(self, prompts: Sequence[str], guided: bool = True) -> Prompt:
        with self._own_precision():
            rows = [self._projection(self._captions.features(text).to(self._table)) for text in prompts]
        if guided:
            stand_ins = [self.unconditional_ids(self.prompt_ids(text)) for text in prompts]
            learned = self._trunk.get_input_embeddings()
            rows += [learned(torch.tensor(ids, device=self.device)) for ids in stand_ins]
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        embeds = pad_sequence(rows, batch_first=True, padding_side="left")
        slots = torch.arange(embeds.shape[1], device=self.device)
        mask = slots >= embeds.shape[1] - lengths[:, None]
        return Prompt(embeds=embeds, mask=mask, images=len(prompts))

    def to(self, device: torch.device | str) -> "CaptionLlamaGen":
        self._captions.forget()
        super().to(device)
        return self
