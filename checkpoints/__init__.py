"""Head bundles: trained draft heads as files that say what they are and refuse what they do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backbones.contract import Backbone
    from heads.contract import DraftHeads


def load_heads(folder: str | Path, backbone: Backbone) -> DraftHeads:
    """The frozen draft heads of the bundle in `folder`, on the device of `backbone`.

    Raises:
        RowcastError: if the bundle is missing, damaged, or made for another backbone.
    """
    from checkpoints.bundle import load_bundle

    return load_bundle(Path(folder), backbone).bank
