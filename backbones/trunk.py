"""What every transformers-based family shares: one frozen Llama-like trunk behind the backbone contract.

A family adds its prompt format, its codebook and its pixel decoder; sessions, the guidance pair, left
padding, row ends and the pre-norm tap are shared. The trunk runs with its final norm taken out, so that it
returns pre-norm states; `head` applies the norm.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from backbones.cache import SlotCache
from backbones.contract import Backbone, Grid, Prompt, Sampling, Step
from backbones.entries import arrive, slots_of
from backbones.errors import RowcastError
from backbones.fingerprint import fingerprint
from backbones.packed import pack
from backbones.padding import left_padded
from backbones.session import Session, open_session
from backbones.slots import Slots
from backbones.words import Words


class SharedTrunk(Backbone):
    """A backbone over a frozen transformers trunk (`inputs_embeds` in, `last_hidden_state` out)."""

    _words: Words | None = None
    """The text tokenizer, which a family whose prompts are text sets."""

    def __init__(
        self,
        *,
        name: str,
        trunk: PreTrainedModel,
        image_head: nn.Module,
        image_table: Float[Tensor, "V D"],
        grid: Grid,
        sampling: Sampling,
        pad: int,
        hashed: Mapping[str, nn.Module],
        row_end: Float[Tensor, " D"] | None = None,
        vq: nn.Module | None = None,
    ) -> None:
        """Takes `trunk` over: its `norm` becomes the identity.

        Args:
            name: the family's name.
            trunk: decoder with a final `norm` and text embeddings.
            image_head: normed states to logits of the image codes.
            image_table: what the trunk is fed for each image code.
            grid: token grid of an image.
            sampling: official sampling settings.
            pad: id that fills short prompts up.
            hashed: modules beside the trunk and the head whose weights the fingerprint covers.
            row_end: embedding of the forced token after each row, if the family has one.
            vq: what turns codes into pixels, in fp32; none where its weights were not given.
        """
        self.name, self.grid, self.sampling = name, grid, sampling
        self.codes, self.width = image_table.shape
        # The boolean masks built here are silently wrong in any other attention implementation.
        trunk.set_attn_implementation("sdpa")
        self._norm = trunk.get_submodule("norm")
        trunk.norm = nn.Identity()
        self._trunk, self._image_head = trunk, image_head
        self._hashed = {"trunk": trunk, "norm": self._norm, "head": image_head, **hashed}
        for module in self._hashed.values():
            module.eval().requires_grad_(False)
        pack(trunk)
        pack(image_head)
        self._pad = pad
        self._slots = Slots(grid=grid, row_ends=row_end is not None)
        # The row end is one more row of the table: code V.
        table = image_table if row_end is None else torch.cat([image_table, row_end[None]])
        self._table = table.detach()
        self.vq = None if vq is None else vq.float().eval().requires_grad_(False)
        """The image tokenizer, in fp32; none where its weights were not given."""
        self._session: Session | None = None

    @abstractmethod
    def prompt_ids(self, prompt: str) -> list[int]:
        """Token ids of one prompt; the last one predicts image token 0."""

    @abstractmethod
    def unconditional_ids(self, ids: list[int]) -> list[int]:
        """Token ids of the unconditional branch beside a prompt's `ids`."""

    @cached_property
    def fingerprint(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return fingerprint(self._hashed, self.grid, self.dtype, self._trunk.config)

    @property
    def device(self) -> torch.device:
        return self._table.device

    @property
    def dtype(self) -> torch.dtype:
        return self._table.dtype

    def to(self, device: torch.device | str) -> "SharedTrunk":
        if torch.device(device).type != "meta":
            self._require_values()
        for module in self._hashed.values():
            module.to(device)
        if self.vq is not None:
            self.vq.to(device)
        self._table = self._table.to(device)
        self.close()
        return self

    def twin(self) -> "SharedTrunk":
        twin = copy(self)
        twin.close()
        return twin

    def close(self) -> None:
        self._session = None

    @property
    def paints(self) -> bool:
        return self.vq is not None

    @property
    def parts(self) -> Mapping[str, nn.Module]:
        return self._hashed

    def spell(self, prompt: str) -> list[tuple[int, str]]:
        return [] if self._words is None else self._words.spell(self.prompt_ids(prompt))

    @property
    def length(self) -> int:
        return self._open().length

    @property
    def cache_bytes(self) -> int:
        return self._open().cache.bytes

    @torch.no_grad()
    def encode(self, prompts: Sequence[str], guided: bool = True) -> Prompt:
        rows = [self._fitting(prompt) for prompt in prompts]
        if guided:
            rows += [self.unconditional_ids(row) for row in rows]
        ids, mask = left_padded(rows, self._pad)
        embeds = self._trunk.get_input_embeddings()(ids.to(self.device))
        return Prompt(embeds=embeds, mask=mask.to(self.device), images=len(prompts))

    @torch.no_grad()
    def begin(self, prompt: Prompt) -> Step:
        self._session = self._new_session(prompt)
        hidden = self._run(self._session, prompt.embeds, 0)[:, -1:]
        return Step(hidden=hidden, logits=self.head(hidden))

    @torch.no_grad()
    def forward(self, tokens: Int[Tensor, "N T"]) -> Step:
        session = self._raster()
        start, end = session.length, session.length + tokens.shape[1]
        if end > self.grid.size:
            raise RowcastError(
                f"expected at most {self.grid.size} image tokens ({self.grid.rows}x{self.grid.cols}), "
                f"found {end}: shorten the block or begin a new image"
            )
        embeds, entries = self._lay_out(session, tokens, start)
        hidden = self._run(session, embeds, session.prompt + self._slots.before(start))
        if entries is not None:
            hidden = hidden[:, entries]
        session.length = end
        return Step(hidden=hidden, logits=self.head(hidden))

    @torch.no_grad()
    def forward_at(
        self, tokens: Int[Tensor, "N T"], places: Sequence[int], sees: Bool[Tensor, "T E"]
    ) -> Step:
        session = self._open()
        new = arrive(self._slots, session.present, tokens, places, sees, row_end=self.codes)
        hidden = self._call(
            self._table[new.ids].repeat(session.branches, 1, 1),
            session.attention_at(new.sees),
            session.positions[:, session.prompt + new.slots],
            session.cache,
        )[:, new.outputs]
        session.hold(torch.cat([session.present, torch.tensor(places)]))
        return Step(hidden=hidden, logits=self.head(hidden))

    def keep_entries(self, entries: Sequence[int]) -> None:
        session, kept = self._open(), torch.tensor(entries, dtype=torch.long)
        if len(kept) and not 0 <= kept.min() <= kept.max() < session.length:
            raise RowcastError(
                f"expected entries 0 to {session.length - 1}, found {kept.min()} to {kept.max()}: "
                "only tokens in the cache can be kept"
            )
        image = session.prompt + slots_of(self._slots, session.present, kept)
        session.cache.gather(torch.cat([torch.arange(session.prompt), image]))
        session.hold(session.present[kept])

    def keep(self, length: int) -> None:
        session = self._raster()
        if not 0 <= length <= session.length:
            raise RowcastError(
                f"expected to keep 0 to {session.length} image tokens, found {length}: "
                "only tokens in the cache can be kept"
            )
        session.cache.keep(session.prompt + self._slots.before(length))
        session.length = length

    def embed(self, tokens: Int[Tensor, "*B"]) -> Float[Tensor, "*B D"]:
        return self._table[tokens]

    def head(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        self._require_values()
        with self._own_precision():
            return self._image_head(self._norm(hidden)).float()

    @torch.no_grad()
    def states(self, prompt: Prompt, tokens: Int[Tensor, "N P"]) -> Float[Tensor, "GN P D"]:
        self.check_images(tokens)
        session = self._new_session(prompt)
        image, entries = self._lay_out(session, tokens[:, :-1], 0)
        embeds = torch.cat([prompt.embeds, image], 1)
        hidden = self._run(session, embeds, 0, cached=False)[:, session.prompt - 1 :]
        if entries is None:
            return hidden.contiguous()
        return hidden[:, torch.cat([entries.new_zeros(1), entries + 1])]

    def check_images(self, tokens: Int[Tensor, "N P"]) -> None:
        """Raises RowcastError unless `tokens` are whole images of known codes."""
        if tokens.shape[1] != self.grid.size:
            raise RowcastError(
                f"expected {self.grid.size} tokens an image ({self.grid.rows}x{self.grid.cols}), "
                f"found {tokens.shape[1]}: pass whole images"
            )
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= self.codes:
            raise RowcastError(
                f"expected image codes 0 to {self.codes - 1}, found {low} to {high}: "
                "these tokens belong to another backbone"
            )

    def _open(self) -> Session:
        if self._session is None:
            raise RowcastError("expected an open session, found none: call begin(prompt) first")
        return self._session

    def _raster(self) -> Session:
        """The open session, if its cache is in raster order."""
        session = self._open()
        if session.places is not None:
            places = session.places[:8].tolist()
            raise RowcastError(
                f"expected tokens in raster order in the cache, found places {places} ...: "
                "call keep_entries first"
            )
        return session

    def _fitting(self, prompt: str) -> list[int]:
        """The ids of a prompt, if they and a whole image fit into the trunk's positions."""
        ids = self.prompt_ids(prompt)
        longest = self._trunk.config.max_position_embeddings - self._slots.before(self.grid.size)
        if len(ids) > longest:
            raise RowcastError(
                f"expected a prompt of at most {longest} tokens, found {len(ids)}: shorten {prompt[:80]!r}"
            )
        return ids

    def _new_session(self, prompt: Prompt) -> Session:
        self._require_values()
        layers, image = self._trunk.config.num_hidden_layers, self._slots.before(self.grid.size)
        return open_session(prompt, layers, image, self.positions(prompt, image))

    def positions(self, prompt: Prompt, image_slots: int) -> Int[Tensor, "B S"]:
        """Position ids by slot, prompt first, padding not counted; B is 1 where all rows share them."""
        rows, length = prompt.mask.shape
        if prompt.mask.all():
            return torch.arange(length + image_slots, device=prompt.mask.device)[None]
        image = torch.arange(1, image_slots + 1, device=prompt.mask.device).expand(rows, -1)
        counted = prompt.mask.long().cumsum(-1)
        return (torch.cat([counted, counted[:, -1:] + image], 1) - 1).clamp_min(0)

    def _lay_out(
        self, session: Session, tokens: Int[Tensor, "N T"], start: int
    ) -> tuple[Float[Tensor, "GN W D"], Int[Tensor, " T"] | None]:
        """What the trunk is fed for image tokens `start..`, in every branch, and which slots are entries."""
        ids, entries = self._slots.place(tokens, start, row_end=self.codes)
        return self._table[ids].repeat(session.branches, 1, 1), entries

    def _run(
        self, session: Session, embeds: Float[Tensor, "GN W D"], past: int, cached: bool = True
    ) -> Float[Tensor, "GN W D"]:
        """Feeds W slots after the `past` ones of the session, in raster order; pre-norm states."""
        end = past + embeds.shape[1]
        mask, positions = session.attention(past, end), session.positions[:, past:end]
        return self._call(embeds, mask, positions, session.cache if cached else None)

    def _call(
        self,
        embeds: Float[Tensor, "GN W D"],
        mask: Bool[Tensor, "B 1 W E"] | None,
        positions: Int[Tensor, "P W"],
        cache: SlotCache | None,
    ) -> Float[Tensor, "GN W D"]:
        """The trunk, without its final norm."""
        with self._own_precision():
            return self._trunk(
                inputs_embeds=embeds,
                attention_mask=mask,
                position_ids=positions,
                cache=cache,
                use_cache=cache is not None,
            ).last_hidden_state

    def _require_values(self) -> None:
        """Raises RowcastError if the weights are shapes alone, of which nothing can be computed."""
        if self._table.is_meta:
            raise RowcastError(
                "expected weights to compute with, found shapes alone (model.device=meta): "
                "pass model.device=auto, cpu or cuda:0"
            )

    def _own_precision(self) -> AbstractContextManager:
        """Keeps the caller's autocast (mixed-precision training) away from the frozen weights."""
        kind = self._table.device.type
        if kind == "meta":  # has no autocast
            return nullcontext()
        return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()
