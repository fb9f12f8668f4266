"""A shard of cached states: a plain webdataset tar of `<key>.safetensors`, and its index beside it.

The index is written last: a tar without one was not finished, and counts for nothing. Nothing is synced to
the disk, for what a crash spoils is found by its checksum and computed again.
"""

import io
import json
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
from torch import Tensor

from backbones.durable import TEMPORARY

BLOCK, END = 512, 10_240
"""Bytes of a tar's block, and of the most that ends it."""


@dataclass(frozen=True)
class Entry:
    """Where one member's bytes lie."""

    shard: Path
    offset: int
    length: int
    crc32: int

    def read(self) -> bytes:
        """The bytes that were written.

        Raises:
            FileNotFoundError: if the shard was evicted.
            ValueError: if they are not as they were written.
            OSError: if they cannot be read.
        """
        with self.shard.open("rb") as file:
            file.seek(self.offset)
            content = file.read(self.length)
        if len(content) != self.length or zlib.crc32(content) != self.crc32:
            raise ValueError(f"checksum {zlib.crc32(content):08x} in place of {self.crc32:08x}")
        return content


def cost(content: bytes) -> int:
    """Bytes that a member takes in a tar."""
    return BLOCK + -(-len(content) // BLOCK) * BLOCK


class OpenShard:
    """The shard that a process is writing; `room` bytes are taken at once, so that others can count them."""

    def __init__(self, path: Path, room: int) -> None:
        self.path, self.room, self.used = path, room, END
        self.entries: dict[str, Entry] = {}
        self._file = path.open("w+b")
        self._file.truncate(room)
        self._tar = tarfile.open(fileobj=self._file, mode="w")  # noqa: SIM115

    def add(self, key: str, content: bytes) -> Entry:
        """Writes one member, which can be read at once."""
        member = tarfile.TarInfo(f"{key}.safetensors")
        member.size = len(content)
        self._tar.addfile(member, io.BytesIO(content))
        self._file.flush()
        self.used += cost(content)
        offset = self._file.tell() - (cost(content) - BLOCK)
        self.entries[key] = Entry(self.path, offset, len(content), zlib.crc32(content))
        return self.entries[key]

    def publish(self) -> None:
        """Ends the tar and writes its index; an empty one is removed."""
        self._tar.close()
        self._file.truncate(self._file.tell())
        self._file.close()
        if self.entries:
            write_index(self.path, self.entries)
        else:
            remove(self.path)

    def abandon(self) -> None:
        """Gives its bytes back to a disk that has no more."""
        try:
            self._file.close()
        finally:
            remove(self.path)


def index_of(shard: Path) -> Path:
    """The file with the index of a shard."""
    return shard.with_suffix(".json")


def write_index(shard: Path, entries: Mapping[str, Entry]) -> None:
    """Says what a shard holds."""
    lines = {key: [entry.offset, entry.length, entry.crc32] for key, entry in entries.items()}
    temporary = shard.with_suffix(TEMPORARY)
    temporary.write_text(json.dumps(lines))
    temporary.replace(index_of(shard))


def read_index(shard: Path) -> dict[str, Entry]:
    """What a finished shard holds; nothing, if its index is not one."""
    try:
        lines = json.loads(index_of(shard).read_bytes())
        return {key: Entry(shard, *(int(number) for number in line)) for key, line in lines.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def remove(shard: Path) -> None:
    """Deletes a shard, its index first."""
    index_of(shard).unlink(missing_ok=True)
    shard.unlink(missing_ok=True)


def encode(tensors: Mapping[str, Tensor]) -> bytes:
    """Tensors in their own dtypes."""
    return safetensors.torch.save({name: part.cpu().contiguous() for name, part in tensors.items()})


def decode(content: bytes) -> dict[str, Tensor]:
    """What `encode` wrote."""
    return safetensors.torch.load(content)
