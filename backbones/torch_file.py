"""Weights as `torch.save` writes them (`.pt`), read without ever building what else lies in the file."""

import argparse
import pickle
import warnings
import zipfile
from collections.abc import Iterable, Mapping
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
        with safe_globals([argparse.Namespace]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about formats, on the way to an error
            stored = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError as error:
        # torch's own message advises to load such a file unsafely.
        raise _unusable(path, option, "another kind of file or objects that are no tensors") from error
    except Exception as error:  # a truncated file surfaces as one of half a dozen types
        if "weights_only" in str(error):  # a compiled program (TorchScript); the advice is the same
            raise _unusable(path, option, "objects that are no tensors") from error
        raise _unusable(path, option, first_line(error)) from error
    tensors = {}
    if isinstance(stored, Mapping):
        wrapper = next((name for name in WRAPPERS if name in stored), None)
        stored = stored if wrapper is None else stored[wrapper]
    if isinstance(stored, Mapping):
        tensors = {str(name): value for name, value in stored.items() if isinstance(value, Tensor)}
    if not tensors:
        raise _unusable(path, option, "no named tensors")
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.is_meta or tensor.is_quantized:
            raise _unusable(path, option, f"{name} without plain numbers")
    return tensors


def require_matrices(tensors: Mapping[str, Tensor], names: Iterable[str], place: str) -> None:
    """The named tensors are matrices of floating-point numbers.

    Raises:
        RowcastError: if one is not, as in a quantised copy.
    """
    for name in names:
        tensor = tensors[name]
        if tensor.dim() != 2 or not tensor.is_floating_point():
            raise RowcastError(
                f"expected a matrix of floating-point numbers for {name}, found {list(tensor.shape)} of "
                f"{str(tensor.dtype).removeprefix('torch.')} in {place}: pass weights as they were published"
            )


def own(tensor: Float[Tensor, "*S"], dtype: torch.dtype) -> Float[Tensor, "*S"]:
    """A contiguous copy: what is mapped from a file changes when someone overwrites the file."""
    return tensor.detach().to(dtype, copy=True, memory_format=torch.contiguous_format)


def _unusable(path: Path, option: str, found: str) -> RowcastError:
    return RowcastError(
        f"expected a file of tensors as torch.save writes them, found {found} in {path}: "
        f"fetch it again, or pass another {option}"
    )
