"""Small bundles for the tests of this folder."""

import torch

from checkpoints.bundle import save_bundle
from heads.kinds import build_heads
from heads.options import parse_heads


def random_bank(backbone, seed=0, **options):
    """Heads of SSD whose every weight is random."""
    return random_heads(backbone, "ssd", seed, **{"horizontal": 3, "vertical": 2} | options)


def random_heads(backbone, kind, seed=0, **options):
    """Heads of any kind whose every weight is random."""
    kind, parsed = parse_heads({"name": kind, **options})
    bank = build_heads(kind, backbone.width, parsed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in bank.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return bank


def save(folder, bank, backbone, training=None, metrics=None):
    save_bundle(
        folder,
        bank,
        backbone=backbone,
        sampling=backbone.sampling,
        training=training or {},
        metrics=metrics or {},
    )
