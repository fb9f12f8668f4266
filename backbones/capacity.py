"""How much memory a device has for tensors."""

import os
from pathlib import Path

import torch

LEFT = 0.08
"""Of a device's memory, left to the driver, to kernels and to what an allocator loses between tensors."""
CGROUP = Path("/sys/fs/cgroup/memory.max")


def usable(device: torch.device) -> int:
    """Bytes that tensors may take on a device, what they take already included."""
    return round(total(device) * (1 - LEFT))


def total(device: torch.device) -> int:
    """Bytes of a device's memory; of a GPU without what other processes hold there."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device)
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(whole, int(CGROUP.read_text()))  # of a container
    except (OSError, ValueError):  # no container, or one without a limit
        return whole
