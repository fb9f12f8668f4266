"""The fingerprint: the same in every process, changed by any weight, the grid and the dtype."""

import pytest
import torch
from torch import nn

from backbones.contract import Grid
from backbones.fingerprint import fingerprint
from tests.backbones.tiny import tiny_backbone

pytestmark = pytest.mark.unit

GRID = Grid(rows=2, cols=3)


def parts() -> dict[str, nn.Module]:
    linear = nn.Linear(3, 2)
    with torch.no_grad():
        linear.weight.copy_(torch.arange(6).view(2, 3))
        linear.bias.copy_(torch.arange(2))
    return {"linear": linear}


def test_is_what_another_process_once_wrote_down() -> None:
    known = "726762c05800f14f8d8dacea42be5271f5e3b004e18de3502e23c6b6dc159b06"
    assert fingerprint(parts(), GRID, torch.float32) == known


def test_changes_with_grid_dtype_and_names() -> None:
    base = fingerprint(parts(), GRID, torch.float32)
    assert fingerprint(parts(), Grid(rows=3, cols=2), torch.float32) != base
    assert fingerprint(parts(), GRID, torch.bfloat16) != base
    assert fingerprint({"other": parts()["linear"]}, GRID, torch.float32) != base
    assert fingerprint({"linear": parts()["linear"].bfloat16()}, GRID, torch.float32) != base


def test_changes_with_every_weight_of_a_backbone() -> None:
    backbone = tiny_backbone()
    seen = {backbone.fingerprint}
    weights = [w for module in backbone._hashed.values() for w in module.parameters()]
    assert any(w is backbone._norm.weight for w in weights)
    for weight in weights:
        with torch.no_grad():
            weight.view(-1)[-1] += 1e-3
        seen.add(fingerprint(backbone._hashed, backbone.grid, backbone.dtype))
    assert len(seen) == len(weights) + 1


def test_two_builds_of_the_same_backbone_agree() -> None:
    assert tiny_backbone(seed=1).fingerprint == tiny_backbone(seed=1).fingerprint
    assert tiny_backbone(seed=1).fingerprint != tiny_backbone(seed=2).fingerprint
