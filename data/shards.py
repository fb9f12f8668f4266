"""One shard: a plain webdataset tar of `<key>.safetensors` (token ids) and `<key>.json` (their origin).

A shard's bytes depend on its images alone (no time, user or machine), so a set that was interrupted and
resumed equals one that was not, bit for bit.
"""

import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import safetensors.torch
import torch
from jaxtyping import Int
from torch import Tensor
from webdataset.writer import TarWriter

from backbones.contract import Grid, Sampling
from backbones.errors import RowcastError
from data.durable import disk_errors
from data.manifest import Entry, encoded, entry_name, shard_name
from data.storage import Storage


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
        shard=shard_name(range(first, first + len(rollouts))),
        first=first,
        samples=len(rollouts),
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        ends=ends,
        crc32=[zlib.crc32(content[start:end]) for start, end in zip(starts, ends, strict=True)],
    )
    return content, entry


def publish(storage: Storage, content: bytes, entry: Entry) -> None:
    """Puts a shard in place, then its entry; a kill in between costs this shard only.

    Raises:
        RowcastError: if the disk is full or not writable; earlier shards stay as they are.
    """
    with disk_errors(storage.place):
        storage.remove(entry_name(entry.shard))  # of a shard that was lost; it may have had other bytes
        storage.write(entry.shard, content)
        storage.write(entry_name(entry.shard), encoded(entry))


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
