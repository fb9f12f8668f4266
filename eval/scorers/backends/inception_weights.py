"""The published weights of the Inception network, from the file that the pytorch-fid project puts out."""

import hashlib
from pathlib import Path

import torch
from torch import Tensor

from backbones.errors import RowcastError
from backbones.registry import device_of
from backbones.source import DTYPES, fetch_file
from backbones.torch_file import read_tensors
from eval.scorers.backends.inception import Inception
from eval.scorers.backends.load import Place

HASH = "6726825d"
"""First digits of the sha256 of the published file."""
PUBLISHED = f"pt_inception-2015-12-05-{HASH}.pth"
UNUSED = ("fc.", "AuxLogits.")
"""The classifier's weights, which features have no use for."""


def load_inception(place: Place) -> tuple[Inception, str]:
    """The network with the weights of a file, frozen, and the hash of that file.

    Raises:
        RowcastError: if there is no file, or it lacks a weight or holds one of another shape.
    """
    path = fetch_file(place.path, None, place.option)
    tensors = _read(path, place.option)
    with torch.device("meta"):
        model = Inception()
    expected = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    counters = [name for name in expected if name.endswith("num_batches_tracked")]
    tensors |= {name: torch.zeros((), dtype=torch.long) for name in counters}
    tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(UNUSED)}
    for name in sorted(expected.keys() ^ tensors.keys()):
        found = "none" if name in expected else "one"
        raise RowcastError(
            f"expected the weights of {PUBLISHED}, found {found} for {name} in {path}: "
            "fetch the file that the pytorch-fid project publishes"
        )
    for name, shape in expected.items():
        if list(tensors[name].shape) != shape:
            raise RowcastError(
                f"expected {name} of shape {shape}, found {list(tensors[name].shape)} in {path}: "
                f"fetch {PUBLISHED} as the pytorch-fid project publishes it"
            )
    model.load_state_dict(tensors, assign=True)
    model = model.to(device_of(place.device), DTYPES[place.dtype])
    return model.eval().requires_grad_(False), hashlib.sha256(path.read_bytes()).hexdigest()


def _read(path: Path, option: str) -> dict[str, Tensor]:
    if path.suffix != ".safetensors":
        return read_tensors(path, option)
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise RowcastError(f"expected tensors in {path}, found {error}: fetch the file again") from error
