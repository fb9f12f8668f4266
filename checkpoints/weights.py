"""`heads.safetensors` of a head bundle: the heads alone, checked before anything is allocated."""

import hashlib
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from backbones.errors import RowcastError
from checkpoints.config import STORED_DTYPES, HeadFacts
from heads.contract import DraftHeads
from heads.kinds import build_heads

WEIGHTS_FILE = "heads.safetensors"


def write_weights(path: Path, bank: DraftHeads) -> None:
    """Writes the weights of `bank`, and nothing else, to `path`.

    Raises:
        OSError: if the disk refuses.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in bank.state_dict().items()}
    try:
        save_file(tensors, path, metadata={"format": "pt"})
    except SafetensorError as error:
        raise OSError(str(error)) from error


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_weights(path: Path, facts: HeadFacts, sha256: str) -> DraftHeads:
    """The heads that `facts` describe, with the weights of `path`, on the CPU.

    Raises:
        RowcastError: if the file is missing, truncated, altered, or holds other tensors.
    """
    try:
        with safe_open(path, framework="pt") as file:
            header = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            found = {name: f"{entry.get_dtype()} {entry.get_shape()}" for name, entry in header.items()}
            bank = heads_without_memory(path, facts)
            _check_header(path, found, bank)
            if sha256_of(path) != sha256:
                raise _unfit(path, "altered bytes")
            bank.to_empty(device="cpu")
            bank.load_state_dict({name: file.get_tensor(name) for name in found})
    except (OSError, SafetensorError) as error:
        raise _unfit(path, str(error)) from error
    return bank


def heads_without_memory(path: Path, facts: HeadFacts) -> DraftHeads:
    """The heads that a config promises, on the meta device: shapes without storage.

    Args:
        path: where their weights lie or would lie, for the message.
        facts: of the config.

    Raises:
        RowcastError: if there are no such heads.
    """
    if facts.dtype not in STORED_DTYPES:
        raise _unfit(path, f"dtype {facts.dtype!r} in the config")
    with torch.device("meta"):
        return build_heads(facts.name, facts.width, facts.options).to(getattr(torch, facts.dtype))


def size_on_disk(path: Path, facts: HeadFacts) -> int:
    """Bytes of the weights that a config promises, without the header of their file.

    Raises:
        RowcastError: if there are no such heads.
    """
    tensors = heads_without_memory(path, facts).state_dict().values()
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def require_publishable(path: Path, heads: DraftHeads) -> None:
    """Refuses weights that nobody could use, and a file that says more than its tensors.

    Args:
        path: where the heads were read from.
        heads: as `read_weights` gave them.

    Raises:
        RowcastError: if a weight is not finite, or the header carries notes.
    """
    for name, tensor in heads.state_dict().items():
        if not torch.isfinite(tensor).all():
            raise RowcastError(
                f"expected finite weights in {path}, found others in {name!r}; train the heads again"
            )
    with safe_open(path, framework="pt") as file:
        notes = sorted((file.metadata() or {}).keys() - {"format"})
    if notes:
        raise _unfit(path, f"notes beside them ({', '.join(notes)[:80]})")


def _check_header(path: Path, found: dict[str, str], bank: DraftHeads) -> None:
    """Refuses a file whose tensors are not those of `bank` in name, dtype and shape."""
    expected = {
        name: f"{STORED_DTYPES[str(tensor.dtype).removeprefix('torch.')]} {list(tensor.shape)}"
        for name, tensor in bank.state_dict().items()
    }
    for name in sorted(expected.keys() | found.keys()):
        have, want = found.get(name, "nothing"), expected.get(name, "nothing")
        if have != want:
            raise _unfit(path, f"{have} in place of {want} at {name!r}")


def _unfit(path: Path, found: str) -> RowcastError:
    return RowcastError(
        f"expected in {path} the weights that its config.json describes, found {found}; copy the bundle again"
    )
