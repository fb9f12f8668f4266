"""One open session: the images being painted, their cache, and who may attend whom."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from backbones.cache import SlotCache
from backbones.contract import Prompt


@dataclass(kw_only=True)
class Session:
    """N images in G guidance branches; `S` slots for their prompts and image tokens."""

    cache: SlotCache
    prompt: int
    """Slots of the prompt, padding included."""
    branches: int
    """G."""
    positions: Int[Tensor, "B S"]
    """Position ids by slot, padding not counted; B is 1 where no row is padded."""
    visible: Bool[Tensor, "GN S"] | None
    """Slots that hold a token; none where no row is padded."""
    length: int = 0
    """Image tokens in the cache."""
    places: Int[Tensor, " E"] | None = None
    """Raster places of the tokens in the cache, by arrival, on the CPU; none where they are 0, 1, 2 ..."""

    @property
    def present(self) -> Int[Tensor, " E"]:
        """Raster places of the tokens in the cache."""
        return torch.arange(self.length) if self.places is None else self.places

    def hold(self, places: Int[Tensor, " E"]) -> None:
        """Notes what the cache holds now."""
        self.length = len(places)
        self.places = None if torch.equal(places, torch.arange(self.length)) else places

    def attention_at(self, sees: Bool[Tensor, "W S"]) -> Bool[Tensor, "B 1 W E"]:
        """The whole prompt and what `sees` says of the image slots, padding left out."""
        if self.visible is None:
            prompt = sees.new_ones(1, 1, len(sees), self.prompt)
        else:
            prompt = self.visible[:, None, None, : self.prompt].expand(-1, -1, len(sees), -1)
        return torch.cat([prompt, sees.expand(len(prompt), 1, *sees.shape)], -1)

    def attention(self, past: int, end: int) -> Bool[Tensor, "B 1 W E"] | None:
        """Who of the slots `past..end-1` may attend to which of `0..end-1`: causally, padding left out.

        None where the attention kernel's own rule is right: a single query or a square block, no padding.
        """
        if self.visible is None and (end - past == 1 or past == 0):
            return None
        slots = torch.arange(end, device=self.positions.device)
        queries = slots[past:, None]
        causal = (slots <= queries)[None, None]
        if self.visible is None:
            return causal
        # A padded query attends to itself: a softmax over nothing is NaN, and that would spread.
        return (causal & self.visible[:, None, None, :end]) | (slots == queries)


def open_session(prompt: Prompt, layers: int, image_slots: int, positions: Int[Tensor, "B S"]) -> Session:
    """An empty session with room for `prompt` and a whole image of `image_slots` slots."""
    rows, length = prompt.mask.shape
    visible = None
    if not prompt.mask.all():
        visible = torch.cat([prompt.mask, prompt.mask.new_ones(rows, image_slots)], 1)
    return Session(
        cache=SlotCache(layers, length + image_slots),
        prompt=length,
        branches=rows // prompt.images,
        positions=positions,
        visible=visible,
    )
