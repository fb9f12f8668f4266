"""Keys and values of an open session: buffers allocated once, written in place, rolled back by a counter.

Attention sees a view of the filled slots: nothing is concatenated per step, and nothing beyond the length is
attended. All rows of the batch share one length (a guidance pair accepts alike).
"""

import torch
from jaxtyping import Int
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin


class SlotLayer(CacheLayerMixin):
    """One attention layer's keys and values, `[batch, heads, slots, head width]`."""

    is_croppable = True
    is_sliding = False

    def __init__(self, slots: int) -> None:
        super().__init__()
        self.slots = slots
        self.length = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocates the buffers; transformers leaves their shape to the first keys and values."""
        batch, heads, _, width = key_states.shape
        self.keys = key_states.new_empty(batch, heads, self.slots, width)
        self.values = value_states.new_empty(batch, heads, self.slots, value_states.shape[-1])
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Writes the new slots and returns views of everything filled so far."""
        if self.keys is None or self.values is None:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        new = key_states.shape[-2]
        if self.length + new > self.slots:
            self._grow(self.length + new)
        self.keys.narrow(-2, self.length, new).copy_(key_states)
        self.values.narrow(-2, self.length, new).copy_(value_states)
        self.length += new
        return self.keys.narrow(-2, 0, self.length), self.values.narrow(-2, 0, self.length)

    def _grow(self, slots: int) -> None:
        """Makes room for a tree of drafts beside the image, which alone always fits."""
        assert self.keys is not None
        assert self.values is not None
        self.slots = max(slots, self.slots + self.slots // 4)
        for name in ("keys", "values"):
            filled = getattr(self, name)[..., : self.length, :]
            room = filled.new_empty(*filled.shape[:2], self.slots, filled.shape[-1])
            room[..., : self.length, :] = filled
            setattr(self, name, room)

    def gather(self, start: int, index: Int[Tensor, " S"]) -> None:
        """Keeps the first `start` slots, then the slots `index` alone, in that order."""
        assert self.keys is not None
        assert self.values is not None
        self.length = start + len(index)
        for buffer in (self.keys, self.values):
            buffer[..., start : self.length, :] = buffer.index_select(-2, index)

    def crop(self, tokens_to_remove: int) -> None:
        """Forgets the last slots; the argument is minus their number, as transformers has it."""
        if not 0 <= -tokens_to_remove <= self.length:
            raise ValueError(f"expected minus 0 to {self.length} slots to remove, found {tokens_to_remove}")
        self.length += tokens_to_remove

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return self.slots


class SlotCache(Cache):
    """The cache of a whole trunk: `layers` layers of `slots` slots each."""

    def __init__(self, layers: int, slots: int) -> None:
        self._layers = [SlotLayer(slots) for _ in range(layers)]
        super().__init__(layers=[*self._layers])

    @property
    def length(self) -> int:
        """Filled slots."""
        return self._layers[0].length

    @property
    def bytes(self) -> int:
        """Of the keys and values in the filled slots, all layers together."""
        buffers = [
            buffer for layer in self._layers for buffer in (layer.keys, layer.values) if buffer is not None
        ]
        return sum(buffer.nbytes // buffer.shape[-2] for buffer in buffers) * self.length

    def keep(self, length: int) -> None:
        """Rolls every layer back to its first `length` slots."""
        for layer in self._layers:
            layer.crop(length - layer.length)

    def gather(self, index: Int[Tensor, " S"]) -> None:
        """Keeps the slots `index` alone in every layer, in that order; what stays in place is not copied."""
        moved = (index != torch.arange(len(index))).nonzero()
        start = int(moved[0, 0]) if len(moved) else len(index)
        keys = self._layers[0].keys
        index = index[start:].to("cpu" if keys is None else keys.device)
        for layer in self._layers:
            layer.gather(start, index)
