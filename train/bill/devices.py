"""What a device can do, by its makers: memory, bandwidth, matrix products. From their data sheets, dense."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True)
class Device:
    """One accelerator."""

    memory: float
    """Bytes that torch sees."""
    bandwidth: float
    """Bytes a second."""
    half: float
    """Operations a second of products in bf16."""
    full: float
    """The same in fp32, without TF32, as torch computes them unless told otherwise."""


DEVICES = {
    "b200": Device(memory=191e9, bandwidth=8.0e12, half=2250e12, full=75e12),
    "h200": Device(memory=150e9, bandwidth=4.8e12, half=989e12, full=67e12),
    "h100": Device(memory=84.9e9, bandwidth=3.35e12, half=989e12, full=67e12),
    "a100": Device(memory=84.9e9, bandwidth=2.04e12, half=312e12, full=19.5e12),
    "a100_40": Device(memory=42.3e9, bandwidth=1.56e12, half=312e12, full=19.5e12),
    "l40s": Device(memory=47.6e9, bandwidth=0.86e12, half=362e12, full=91.6e12),
    "rtx4090": Device(memory=25.2e9, bandwidth=1.01e12, half=165e12, full=82.6e12),
}


def here() -> str | None:
    """The name of this machine's first GPU in `DEVICES`, if it is one of them."""
    if not torch.cuda.is_available():
        return None
    found = torch.cuda.get_device_properties(0)
    name = found.name.lower().replace(" ", "")
    for known in sorted(DEVICES, key=len):
        if known.partition("_")[0] in name and abs(DEVICES[known].memory / found.total_memory - 1) < 0.1:
            return known
    return None
