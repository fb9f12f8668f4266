"""The draft heads of a benchmark: of several bundles, those that its decoders draft with."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from backbones.contract import Backbone
from backbones.errors import RowcastError
from checkpoints import load_heads
from checkpoints.config import CONFIG_FILE, read_config
from checkpoints.hub import on_hub, resolve
from decoding.options import HEADS
from heads.contract import DraftHeads
from heads.kinds import build_heads
from heads.options import HEADS as HEAD_OPTIONS

UNTRAINED = "untrained"
"""In place of bundles: heads of the default shape as they are before training."""


@dataclass(frozen=True, kw_only=True)
class HeadsSubject:
    """Draft heads that were measured."""

    weights: str
    """Hash of the loaded tensors."""
    targets: list[str]
    parameters: int


def find_bundles(places: str | Sequence[str], methods: Mapping[str, str]) -> dict[str, Path]:
    """The bundle of every kind of heads that is needed.

    Args:
        places: one bundle, or several of different kinds: folders, or names on the hub; of several, folders
            that do not exist are left out as long as no decoder needs them.
        methods: the method of each decoder.

    Raises:
        RowcastError: if a bundle is damaged, two are of one kind, or one that is needed or that the hub
            should have is missing.
    """
    named = [places] if isinstance(places, str) else places
    if len(named) > 1:
        named = [place for place in named if (Path(place) / CONFIG_FILE).is_file() or on_hub(place)]
    needed = {HEADS[method] for method in methods.values() if method in HEADS}
    bundles: dict[str, Path] = {}
    for folder in map(resolve, named if needed else []):
        kind = read_config(folder).heads.name
        if kind in bundles:
            raise RowcastError(
                f"expected one bundle of {kind} heads, found {bundles[kind]} and {folder}: "
                "leave one of them out"
            )
        bundles[kind] = folder
    for name, method in methods.items():
        if (kind := HEADS.get(method)) is not None and kind not in bundles:
            found = ", ".join(f"{other} heads in {folder}" for other, folder in bundles.items()) or "none"
            raise RowcastError(
                f"expected {kind} heads for decoder {name}, found {found}: train some with "
                f"`python -m train heads={kind}`, or name their bundle in heads=[...]"
            )
    return {kind: bundles[kind] for kind in sorted(needed)}


def load_bundles(bundles: Mapping[str, Path], backbone: Backbone) -> dict[str, DraftHeads]:
    """The heads of these bundles by kind.

    Raises:
        RowcastError: if a bundle is damaged or made for another backbone.
    """
    return {kind: load_heads(folder, backbone) for kind, folder in bundles.items()}


def untrained_heads(methods: Mapping[str, str], backbone: Backbone) -> dict[str, DraftHeads]:
    """Heads of the default shape for these decoders, by kind: to time with, since their drafts mean nothing.

    Args:
        methods: the method of each decoder.
        backbone: what the heads would be trained for.
    """
    kinds = sorted({HEADS[method] for method in methods.values() if method in HEADS})
    heads = {kind: build_heads(kind, backbone.width, HEAD_OPTIONS[kind]()) for kind in kinds}
    return {kind: made.requires_grad_(False).eval().to(backbone.device) for kind, made in heads.items()}


def describe(heads: DraftHeads) -> HeadsSubject:
    """What a report says of heads."""
    weights = hashlib.sha256()
    for name, tensor in sorted(heads.state_dict().items()):
        weights.update(name.encode())
        weights.update(tensor.detach().cpu().float().numpy().tobytes())
    return HeadsSubject(
        weights=weights.hexdigest()[:12],
        targets=list(heads.labels),
        parameters=sum(parameter.numel() for parameter in heads.parameters()),
    )
