"""Small bundles for the tests of this folder."""

import torch

from checkpoints.bundle import save_bundle
from heads.bank import HeadBank


def random_bank(backbone, seed=0, **options):
    """Heads whose every weight is random."""
    bank = HeadBank(backbone.width, **{"horizontal": 3, "vertical": 2} | options)
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
