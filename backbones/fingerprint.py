"""What a head bundle is tied to: a hash over everything that decides a backbone's states and logits."""

import hashlib
import json
from collections.abc import Mapping

import torch
from torch import nn
from transformers import PreTrainedConfig

from backbones.contract import Grid
from backbones.errors import RowcastError

NORM_TAP = "pre-norm"
LAW = (
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "rms_norm_eps",
    "rope_parameters",
    "swin_norm",
)
"""Settings of a trunk that change what the same weights compute."""


def fingerprint(
    parts: Mapping[str, nn.Module], grid: Grid, dtype: torch.dtype, config: PreTrainedConfig | None = None
) -> str:
    """Hash of the weights of `parts` by name, shape, dtype and bytes, of the grid, the norm tap and `dtype`.

    The same in every process and on every device; changed by any weight and by any setting in `LAW`.

    Raises:
        RowcastError: if the weights have no values (`model.device=meta`).
    """
    settings = {name: getattr(config, name) for name in LAW if hasattr(config, name)}
    law = json.dumps(settings, sort_keys=True, default=str)
    digest = hashlib.sha256(f"{NORM_TAP} {grid.rows}x{grid.cols} {dtype} {law}".encode())
    for part in sorted(parts):
        for name, weight in sorted(parts[part].named_parameters()):
            if weight.is_meta:
                raise RowcastError(
                    "expected weights to take a fingerprint of, found shapes alone: pass another model.device"
                )
            digest.update(f"\n{part}.{name} {tuple(weight.shape)} {weight.dtype}\n".encode())
            digest.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
