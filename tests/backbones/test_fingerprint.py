"""The fingerprint: the same in every process, changed by any weight, the grid and the dtype."""

import pytest
import torch
from torch import nn
from transformers import LlamaConfig

from backbones.contract import Grid
from backbones.errors import RowcastError
from backbones.fingerprint import LAW, fingerprint
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
    known = "1ecd203a048de24d3896306449d442e27103faca3d0e59a93a4354bc7a66fdef"
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
        seen.add(fingerprint(backbone._hashed, backbone.grid, backbone.dtype, backbone._trunk.config))
    assert len(seen) == len(weights) + 1


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("num_attention_heads", 8),
        ("num_key_value_heads", 4),
        ("head_dim", 16),
        ("hidden_act", "gelu"),
        ("rms_norm_eps", 1e-5),
        ("rope_parameters", {"rope_type": "default", "rope_theta": 500.0}),
        ("swin_norm", True),
    ],
)
def test_changes_with_settings_that_change_what_the_same_weights_compute(setting: str, value: object) -> None:
    config = tiny_backbone()._trunk.config
    base = fingerprint(parts(), GRID, torch.float32, config)
    assert setting in LAW
    setattr(config, setting, value)
    assert fingerprint(parts(), GRID, torch.float32, config) != base


def test_other_settings_and_a_round_trip_through_a_file_change_nothing() -> None:
    config = tiny_backbone()._trunk.config
    base = fingerprint(parts(), GRID, torch.float32, config)
    config.use_cache = not config.use_cache
    assert fingerprint(parts(), GRID, torch.float32, config) == base
    assert fingerprint(parts(), GRID, torch.float32, LlamaConfig.from_dict(config.to_dict())) == base


def test_shapes_alone_have_none() -> None:
    with pytest.raises(RowcastError, match=r"found shapes alone: pass another model\.device"):
        fingerprint({"linear": nn.Linear(3, 2, device="meta")}, GRID, torch.float32)


def test_two_builds_of_the_same_backbone_agree() -> None:
    assert tiny_backbone(seed=1).fingerprint == tiny_backbone(seed=1).fingerprint
    assert tiny_backbone(seed=1).fingerprint != tiny_backbone(seed=2).fingerprint
