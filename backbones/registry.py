"""Backbones by name. A family's code, and the heavy libraries under it, are imported when it is asked for."""

import difflib
import importlib
import re
from collections.abc import Sequence
from types import ModuleType

import torch

from backbones.contract import Backbone
from backbones.errors import RowcastError
from backbones.source import DTYPES, WEIGHTS, Source

FAMILIES = {
    "pocket": "backbones.pocket.backbone",
    "lumina": "backbones.lumina",
    "anole": "backbones.lumina",
    "janus": "backbones.janus",
    "janus_1b": "backbones.janus",
    "emu3": "backbones.emu3",
    "llamagen_c2i": "backbones.llamagen",
    "llamagen_t2i": "backbones.llamagen",
}
"""The module of each model; all of them offer `load`, `random` and `prompts`."""


def known_backbones() -> list[str]:
    """Names that `load_backbone` takes."""
    return list(FAMILIES)


def family(name: str) -> ModuleType:
    """The module of a model.

    Raises:
        RowcastError: for a name that is not known.
    """
    _check_known("model", name, list(FAMILIES))
    return importlib.import_module(FAMILIES[name])


def load_backbone(
    name: str,
    *,
    device: str = "auto",
    dtype: str = "float32",
    weights: str = "published",
    **options: str | None,
) -> Backbone:
    """Loads a frozen backbone.

    Args:
        name: one of `known_backbones()`.
        device: `auto` takes a CUDA device where there is one; `meta` holds shapes alone (random weights).
        dtype: of the trunk; pixels are always decoded in fp32.
        weights: `published`, or `random` for the published configuration; no file is read then.
        options: the other fields of `Source`.

    Raises:
        RowcastError: for a name, dtype, size or device that does not exist, and for missing or broken files.
    """
    module = family(name)
    _check_known("dtype", dtype, list(DTYPES))
    _check_known("weights", weights, WEIGHTS)
    source = Source(name=name, dtype=dtype, weights=weights, **options)
    if source.is_random:
        place = torch.device("meta") if device == "meta" else device_of(device)
        with place:
            return module.random(source)
    backbone = module.load(source).to(device_of(device))
    backbone.source = source.origin
    return backbone


def rollout_prompts(name: str) -> list[str]:
    """The prompts that a backbone is rolled out on when the user gives none."""
    return family(name).prompts(name)


def device_of(device: str) -> torch.device:
    """The device of `model.device`.

    Raises:
        RowcastError: if this machine has no such device.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    refusal = RowcastError(
        f"expected a device that this machine has, found {device!r}: pass model.device=auto, cpu or cuda:0"
    )
    if not re.fullmatch(r"cpu|cuda(:[0-9]+)?", device):
        raise refusal
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:  # torch built without CUDA asserts
        raise refusal from error
    return place


def _check_known(kind: str, found: str, known: Sequence[str]) -> None:
    if found not in known:
        near = difflib.get_close_matches(found, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "pass one of them"
        raise RowcastError(f"expected a {kind} of {', '.join(known)}, found {found!r}: {hint}")
