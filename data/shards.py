"""One shard: a plain webdataset tar of `<key>.safetensors` (token ids) and `<key>.json` (their origin).

A shard's bytes depend on its images alone (no time, user or machine), so a set that was interrupted and
resumed equals one that was not, bit for bit.
"""

import hashlib
import io
import json
import os
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import safetensors.torch
import torch
from jaxtyping import Int
from torch import Tensor
from webdataset.writer import TarWriter

from backbones.contract import Grid, Sampling
from backbones.durable import write_durably
from backbones.errors import RowcastError
from data.durable import disk_errors
from data.manifest import Entry, append_entry


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """One sampled image."""

    key: str
    """The image's number in its set, eight digits."""
    prompt: str
    tokens: Int[Tensor, " P"]
    """Codes in raster order."""
    seed: int
    sample: int
    """Which of the images of this prompt it is; (seed, prompt, sample) fix its random numbers."""


def image_key(image: int) -> str:
    """The key of an image of a set; no dot, for webdataset takes what follows one as the member's type."""
    return f"{image:08d}"


def pack(rollouts: Sequence[Rollout], first: int, *, grid: Grid, sampling: Sampling) -> tuple[bytes, Entry]:
    """A shard's bytes and its manifest entry; its images are `first`, `first+1`, ..."""
    buffer = io.BytesIO()
    # encoder=False: bytes are handed over, so nothing is ever pickled.
    writer = TarWriter(buffer, user="rowcast", group="rowcast", mtime=0, encoder=False)
    ends = []
    for rollout in rollouts:
        origin = {
            "prompt": rollout.prompt,
            "seed": rollout.seed,
            "sample": rollout.sample,
            "grid": asdict(grid),
            "sampling": asdict(sampling),
        }
        tokens = rollout.tokens.to("cpu", torch.int32).contiguous()
        writer.write(
            {
                "__key__": rollout.key,
                "json": json.dumps(origin, sort_keys=True).encode(),
                "safetensors": safetensors.torch.save({"tokens": tokens}),
            }
        )
        ends.append(writer.tarstream.offset)
    writer.close()
    content = buffer.getvalue()
    starts = [0, *ends[:-1]]
    entry = Entry(
        shard=f"rollouts-{image_key(first)}-{image_key(first + len(rollouts))}.tar",
        first=first,
        samples=len(rollouts),
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        ends=ends,
        crc32=[zlib.crc32(content[start:end]) for start, end in zip(starts, ends, strict=True)],
    )
    return content, entry


def publish(folder: Path, content: bytes, entry: Entry) -> None:
    """Puts a shard on disk, then into the manifest; a kill in between costs this shard only.

    Raises:
        RowcastError: if the disk is full or not writable; earlier shards stay as they are.
    """
    with disk_errors(folder):
        write_durably(folder / entry.shard, content)
        append_entry(folder, entry)


def unpack(content: bytes, key: str) -> Rollout:
    """An image from the bytes of its two members."""
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as members:
        files = {member.name: members.extractfile(member) for member in members}
        parts = {name: file.read() for name, file in files.items() if file is not None}
    origin = json.loads(parts[f"{key}.json"])
    tokens = safetensors.torch.load(parts[f"{key}.safetensors"])["tokens"].long()
    return Rollout(
        key=key, prompt=origin["prompt"], tokens=tokens, seed=origin["seed"], sample=origin["sample"]
    )


def check_tokens(rollout: Rollout, grid: Grid, codes: int) -> None:
    """Raises RowcastError unless the tokens are one whole image of a model with this grid and codes."""
    low, high = int(rollout.tokens.min()), int(rollout.tokens.max())
    if len(rollout.tokens) != grid.size or low < 0 or high >= codes:
        raise RowcastError(
            f"expected {grid.size} image tokens in 0..{codes - 1} in image {rollout.key}, found "
            f"{len(rollout.tokens)} in {low}..{high}: set a rollouts.folder that this model made"
        )


def read_bytes(folder: Path, entry: Entry, offset: int = 0, length: int | None = None) -> bytes:
    """Bytes of a shard, all of them if no length is given.

    Raises:
        RowcastError: if they cannot be read.
    """
    path = folder / entry.shard
    try:
        with path.open("rb") as file:
            return os.pread(file.fileno(), entry.bytes if length is None else length, offset)
    except OSError as error:
        raise RowcastError(
            f"expected to read the shard {path}, found: {error.strerror}; permit it, or delete the shard and "
            "run `python -m data` with the options of this set to make it again"
        ) from error


def check_size(folder: Path, entry: Entry) -> None:
    """Cheap check of one shard, made whenever a set is opened.

    Raises:
        RowcastError: if the shard is missing or has another size than when it was written.
    """
    path = folder / entry.shard
    if not path.is_file():
        found = "something else: move it away and" if path.exists() else "none:"
        raise RowcastError(
            f"expected the shard {path}, found {found} run `python -m data` with the options of this set "
            "to make it again"
        )
    size = path.stat().st_size
    if size != entry.bytes:
        raise damaged(folder, entry, f"{entry.bytes} bytes", f"{size}")


def check_content(folder: Path, entry: Entry) -> None:
    """Full check of one shard.

    Raises:
        RowcastError: if the shard is missing or any bit of it has changed.
    """
    check_size(folder, entry)
    digest = hashlib.sha256(read_bytes(folder, entry)).hexdigest()
    if digest != entry.sha256:
        raise damaged(folder, entry, f"sha256 {entry.sha256[:12]}", digest[:12])


def damaged(folder: Path, entry: Entry, expected: str, found: str) -> RowcastError:
    """The error for a shard that is not as it was written; names the first image that is lost."""
    content = read_bytes(folder, entry)
    place = "after its last image"
    for image, checksum in zip(range(entry.first, entry.last), entry.crc32, strict=True):
        offset, length = entry.span(image)
        if zlib.crc32(content[offset : offset + length]) != checksum:
            place = f"first at image {image_key(image)}"
            break
    return RowcastError(
        f"expected {expected} in the shard {folder / entry.shard}, found {found} (damaged {place}): "
        "delete the shard and run `python -m data` with the options of this set to make it again"
    )
