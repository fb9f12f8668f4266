"""How much memory tensors take while code runs: the code itself, run on shapes without values.

    with rehearsal() as memory:
        backbone_code(torch.empty(2, 9, 4096, device="meta"))
    memory.peak      # bytes

Every tensor that is made on the meta device is counted from its birth to its end, views once. What a kernel
needs for itself and what an allocator loses between tensors is not seen.
"""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Memory(TorchDispatchMode):
    """Bytes of the tensors that are made on a device while this is active.

    Args:
        device: `meta`, or `cpu` to watch real code.
    """

    def __init__(self, device: str = "meta") -> None:
        super().__init__()
        self.live = 0
        """Bytes held now."""
        self.peak = 0
        """The most bytes that were held at once."""
        self._device = device
        self._known: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        for storage in self._storages((args, kwargs)):
            self._note(storage, 0)  # made before, or counted already
        result = func(*args, **(kwargs or {}))
        for storage in self._storages(result):
            self._note(storage, storage.nbytes())
        return result

    def _storages(self, tree: Any) -> list[torch.UntypedStorage]:
        # oneDNN's packed weights have no storage that torch knows of.
        leaves = [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor) and not leaf.is_mkldnn]
        return [leaf.untyped_storage() for leaf in leaves if leaf.device.type == self._device]

    def _note(self, storage: torch.UntypedStorage, size: int) -> None:
        key = id(storage)
        if key in self._known:
            return

        def freed(_: object) -> None:
            del self._known[key]
            self.live -= size

        self._known[key] = weakref.ref(storage, freed)
        self.live += size
        self.peak = max(self.peak, self.live)


_plain_attention = functional.scaled_dot_product_attention


@contextmanager
def _fused_attention() -> Iterator[None]:
    """Attention as accelerators compute it, without a matrix of all pairs, which meta tensors would get.

    The function itself is exchanged: a mode would not be there when a backward pass recomputes its forward.
    """
    functional.scaled_dot_product_attention = _attend
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = _plain_attention


def _attend(  # noqa: PLR0917, the signature of what it stands for
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if not query.is_meta:  # another thread's
        return _plain_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    bias = None
    if attn_mask is not None:
        # The kernel adds its mask: a boolean one is written out in the queries' type, once for all heads.
        rows, heads = query.shape[:2]
        bias = query.new_empty(attn_mask.shape).expand(rows, heads, -1, -1)
    if key.shape[1] != query.shape[1]:
        key, value = (part.repeat_interleave(query.shape[1] // key.shape[1], 1) for part in (key, value))
    attention = torch.ops.aten._scaled_dot_product_efficient_attention
    return attention(query, key, value, bias, query.requires_grad, dropout_p, is_causal, scale=scale)[0]


@contextmanager
def rehearsal() -> Iterator[Memory]:
    """Counts the meta tensors that the block makes."""
    with _fused_attention(), Memory() as memory:
        yield memory


def bytes_of(tensors: Sequence[Tensor]) -> int:
    """Bytes that tensors hold; what they share counts once."""
    return sum({id(held := tensor.untyped_storage()): held.nbytes() for tensor in tensors}.values())
