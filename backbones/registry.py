"""Backbones by name. A family's code, and the heavy libraries under it, are imported when it is asked for."""

import difflib
import re
from collections.abc import Sequence

import torch

from backbones.contract import Backbone
from backbones.errors import RowcastError

FAMILIES = ("janus", "pocket")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def known_backbones() -> list[str]:
    """Names that `load_backbone` takes."""
    return list(FAMILIES)


def load_backbone(
    name: str,
    *,
    path: str | None = None,
    revision: str | None = None,
    dtype: str = "float32",
    device: str = "auto",
) -> Backbone:
    """Loads a frozen backbone.

    Args:
        name: one of `known_backbones()`.
        path: folder or hub id of the weights; none takes those that come along (pocket).
        revision: hub revision of the weights.
        dtype: of the trunk; pixels are always decoded in fp32.
        device: `auto` takes a CUDA device where there is one.

    Raises:
        RowcastError: for a name, dtype or device that does not exist, and for missing or broken files.
    """
    _check_known("model", name, FAMILIES)
    _check_known("dtype", dtype, list(DTYPES))
    place = _device(device)
    if name == "pocket":
        from backbones.pocket.backbone import load_pocket

        return load_pocket(path, revision=revision, dtype=DTYPES[dtype]).to(place)
    from backbones.janus import load_janus

    if path is None:
        raise RowcastError(
            "expected weights for janus, found none: pass model.path with a folder or hub id such as "
            "deepseek-community/Janus-Pro-1B"
        )
    return load_janus(path, revision=revision, dtype=DTYPES[dtype]).to(place)


def rollout_prompts(name: str) -> list[str]:
    """The prompts that a backbone is rolled out on when the user gives none.

    Raises:
        RowcastError: if the backbone has none of its own.
    """
    _check_known("model", name, FAMILIES)
    if name == "pocket":
        from backbones.pocket.photographs import all_captions

        return all_captions()
    raise RowcastError(
        f"expected prompts for {name}, found none: pass a text file of them, rollouts.prompts=FILE to make "
        "rollouts or train, benchmark.prompts=FILE to benchmark"
    )


def _device(device: str) -> torch.device:
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
