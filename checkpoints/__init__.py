"""Head bundles: trained draft heads as files that say what they are and refuse what they do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backbones.contract import Backbone
    from heads.contract import DraftHeads


def load_heads(place: str | Path, backbone: Backbone) -> DraftHeads:
    """The frozen draft heads of a bundle, on the device of `backbone`.

    Args:
        place: the bundle's folder, or `organisation/name[@revision]` on a hub; what was downloaded once
            needs no network again.
        backbone: what they were trained for.

    Raises:
        RowcastError: if the bundle is missing, damaged, or made for another backbone.
    """
    from checkpoints.bundle import load_bundle

    return load_bundle(find_bundle(place), backbone).bank


def find_bundle(place: str | Path) -> Path:
    """The folder of a bundle, downloaded if `place` is a name on a hub.

    Raises:
        RowcastError: if the hub has no such bundle, or can't be reached and nothing is cached.
    """
    from checkpoints.hub import resolve

    return resolve(place)
