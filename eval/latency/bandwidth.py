"""What limits a forward: the bytes that it reads, and the rate at which the device can."""

import time
from collections.abc import Mapping

import torch
from torch import nn

BLOCK_BYTES = {"cuda": 2**30, "cpu": 2**27}
"""Far beyond any cache of the device."""
COPIES = 10


def weight_bytes(parts: Mapping[str, nn.Module]) -> int:
    """Bytes of the frozen weights that every forward reads: all but tables, where it looks a few rows up."""
    weights = {
        id(tensor): tensor
        for part in parts.values()
        for module in part.modules()
        if not isinstance(module, nn.Embedding)
        for tensor in module.parameters(recurse=False)
    }
    return sum(tensor.numel() * tensor.element_size() for tensor in weights.values())


def copy_rate(device: torch.device) -> tuple[float, int]:
    """Bytes a second that a large copy reads and writes, the best of several; and the block's size."""
    size = BLOCK_BYTES[device.type]
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(COPIES):
        synchronise(device)
        start = time.perf_counter()
        target.copy_(source)
        synchronise(device)
        best = min(best, time.perf_counter() - start)
    return 2 * size / best, size


def synchronise(device: torch.device) -> None:
    """Waits for an accelerator; a CPU is never behind."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
