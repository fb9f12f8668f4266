"""What a frozen backbone takes in memory: its weights, the cache of an image, the work of a forward.

All of it is seen on shapes without values, so that a bill can be written before any file is read: a backbone
of `device=meta`, or a real one by `without_values`.
"""

import copy
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from backbones.cache import SlotCache
from backbones.contract import Backbone
from backbones.packed import PackedLinear
from backbones.rehearsal import bytes_of
from backbones.trunk import SharedTrunk

FEW = (2, 3)
"""Layers of a trunk whose work is looked at in place of all."""


class Footprint:
    """Memory of a backbone, in bytes.

    The methods run its own code on shapes: call them inside `rehearsal`.

    Args:
        backbone: one without values.
        device: the kind of device that it will run on, `cpu` or `cuda`.

    Raises:
        TypeError: if the backbone is none of those that share a trunk.
    """

    def __init__(self, backbone: Backbone, device: str) -> None:
        if not isinstance(backbone, SharedTrunk):
            raise TypeError(f"{backbone.name} has not the shared trunk, whose memory is known")
        self.backbone = backbone
        self._on_cpu = device == "cpu"

    @property
    def weights(self) -> int:
        """All that is held for good; on a CPU in fp32 also the packed copies of linear layers."""
        modules = [*self.backbone.parts.values(), *([self.backbone.vq] if self.backbone.vq else [])]
        tensors = [self.backbone._table]
        for module in modules:
            tensors += [*module.parameters(), *module.buffers()]
        return bytes_of(tensors) + self._packed(modules)

    @property
    def read(self) -> int:
        """Bytes of the weights that one forward reads: the trunk's and the head's matrices."""
        return sum(weight.nbytes for weight in self._matrices())

    @property
    def multiplied(self) -> int:
        """Weights that each token is multiplied with in a forward."""
        return sum(weight.numel() for weight in self._matrices())

    @property
    def layers(self) -> int:
        """Layers of the trunk."""
        return self.backbone._trunk.config.num_hidden_layers

    @property
    def slots(self) -> int:
        """Slots of an image in the cache, row ends among them; the prompt's come on top."""
        return self.backbone._slots.before(self.backbone.grid.size)

    @property
    def slot(self) -> int:
        """Bytes of the keys and values of one slot in one row, all layers."""
        config = self.backbone._trunk.config
        heads = config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        shared = getattr(config, "num_key_value_heads", None) or heads
        return 2 * config.num_hidden_layers * shared * width * self.backbone.dtype.itemsize

    def new_cache(self, prompt: int) -> SlotCache:
        """An empty cache for prompts of `prompt` slots and an image; it allocates when it is first fed."""
        return SlotCache(len(self._stack), prompt + self.slots)

    def over_layers(self, work: Callable[[], tuple[int, ...]]) -> tuple[int, ...]:
        """What `work` measures of the whole trunk, found on a few layers: each further one adds the same.

        Args:
            work: feeds slots, and gives bytes that grow by the layer.
        """
        trunk, whole = self.backbone._trunk, self._stack
        if len(whole) <= sum(FEW):
            return work()
        found = []
        for count in FEW:
            trunk.layers = whole[:count]
            try:
                found.append(work())
            finally:
                trunk.layers = whole
        more = (len(whole) - FEW[0]) // (FEW[1] - FEW[0])
        return tuple(few + more * (several - few) for few, several in zip(*found, strict=True))

    def feed(self, rows: int, past: int, width: int, cache: SlotCache | None) -> Tensor:
        """States `[rows, width, D]` of `width` slots after `past` ones that the cache is taken to hold."""
        backbone = self.backbone
        for layer in cache._layers if cache else ():
            layer.length = past
        with torch.no_grad():
            embeds = torch.empty(rows, width, backbone.width, dtype=backbone.dtype, device="meta")
            mask = torch.empty(rows, 1, width, past + width, dtype=torch.bool, device="meta")
            positions = torch.empty(rows, width, dtype=torch.long, device="meta")
            return backbone._call(embeds, mask, positions, cache)

    def logits(self, hidden: Tensor) -> Tensor:
        """As `Backbone.head`."""
        with torch.no_grad():
            return self.backbone._image_head(self.backbone._norm(hidden)).float()

    def pixels(self, images: int) -> Tensor | None:
        """As `Backbone.decode` of `images` images; none where the backbone has no VQ."""
        if self.backbone.vq is None:
            return None
        return self.backbone.decode(
            torch.empty(images, self.backbone.grid.size, dtype=torch.long, device="meta")
        )

    def longest(self, prompts: Sequence[str]) -> int:
        """Slots that the longest of `prompts` takes, with both branches; judged by the longest texts.

        Raises:
            RowcastError: if the model can't take one of these.
        """
        longest = sorted(set(prompts), key=len)[-4:]
        return max(self.backbone.encode([prompt]).mask.shape[1] for prompt in longest)

    @property
    def _stack(self) -> nn.ModuleList:
        """The layers of the trunk, one after the other."""
        return cast(nn.ModuleList, self.backbone._trunk.layers)

    def _matrices(self) -> list[Tensor]:
        """Weights of the linear layers of the trunk and the output layer."""
        parts = self.backbone._trunk, self.backbone._image_head
        layers = [layer for part in parts for layer in part.modules() if isinstance(layer, nn.Linear)]
        return [layer.weight for layer in layers]

    def _packed(self, modules: Sequence[nn.Module]) -> int:
        if not self._on_cpu or self.backbone.dtype != torch.float32:
            return 0
        layers = {id(layer): layer for module in modules for layer in module.modules()}.values()
        return sum(layer.weight.nbytes for layer in layers if isinstance(layer, PackedLinear))


def without_values(backbone: Backbone) -> Backbone:
    """A copy of a loaded backbone that holds shapes alone; it takes no memory and shares its tokenizer."""
    shared: dict[int, object] = {}
    for value in vars(backbone).values():
        if isinstance(value, Tensor):
            shared[id(value)] = value.to("meta")
        elif isinstance(value, nn.Module | dict):
            for module in value.values() if isinstance(value, dict) else [value]:
                shared |= _shapes(module) if isinstance(module, nn.Module) else {}
        else:
            shared[id(value)] = value
    return copy.deepcopy(backbone, shared)


def _shapes(module: nn.Module) -> dict[int, Tensor | None]:
    """Meta tensors by the identities of the tensors that they stand for."""
    found: dict[int, Tensor | None] = {id(buffer): buffer.to("meta") for buffer in module.buffers()}
    for weight in module.parameters():
        found[id(weight)] = nn.Parameter(weight.detach().to("meta"), requires_grad=weight.requires_grad)
    packed = [layer._packed for layer in module.modules() if isinstance(layer, PackedLinear)]
    return found | {id(copied): None for copied in packed if copied is not None}
