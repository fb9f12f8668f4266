"""Weights as `torch.save` writes them (`.pt`), read without ever building what else lies in the file."""

import argparse
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from torch.serialization import safe_globals

from backbones.errors import RowcastError
from backbones.source import first_line

WRAPPERS = ("model", "module", "state_dict")
"""Where training jobs put the weights: DDP, DeepSpeed, Lightning. FSDP stores them bare."""


def read_tensors(path: Path, option: str) -> dict[str, Tensor]:
    """The named tensors of a file, on the CPU; mapped from the disk where its format allows that.

    Args:
        path: of the file.
        option: where the user wrote its place, for messages.

    Raises:
        RowcastError: if the file is broken, or holds no named tensors.
    """
    try:
        # Training jobs store their command line beside the weights.
        with safe_globals([argparse.Namespace]):
            stored = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError as error:
        # torch's own message advises to load such a file unsafely.
        raise _unusable(path, option, "another kind of file or objects that are no tensors") from error
    except Exception as error:  # a truncated file surfaces as one of half a dozen types
        raise _unusable(path, option, first_line(error)) from error
    tensors = {}
    if isinstance(stored, Mapping):
        wrapper = next((name for name in WRAPPERS if name in stored), None)
        stored = stored if wrapper is None else stored[wrapper]
    if isinstance(stored, Mapping):
        tensors = {str(name): value for name, value in stored.items() if isinstance(value, Tensor)}
    if not tensors:
        raise _unusable(path, option, "no named tensors")
    return tensors


def own(tensor: Float[Tensor, "*S"], dtype: torch.dtype) -> Float[Tensor, "*S"]:
    """A contiguous copy: what is mapped from a file changes when someone overwrites the file."""
    return tensor.detach().to(dtype, copy=True, memory_format=torch.contiguous_format)


def _unusable(path: Path, option: str, found: str) -> RowcastError:
    return RowcastError(
        f"expected a file of tensors as torch.save writes them, found {found} in {path}: "
        f"fetch it again, or pass another {option}"
    )
