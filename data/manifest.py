"""The append-only list of complete shards, `manifest.jsonl`: one JSON line a shard.

A tar reader takes most kinds of damage for the end of the archive and says nothing, so the truth about a
shard (its bytes, its hash, where each image ends) is kept here. The latest line of a shard counts.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from backbones.errors import RowcastError
from data.durable import append_durably, complete_lines
from data.record import from_json

FILE = "manifest.jsonl"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One complete shard: the images `first .. first+samples-1` of the set."""

    shard: str
    """File name."""
    first: int
    samples: int
    bytes: int
    """Size of the file."""
    sha256: str
    ends: list[int]
    """Image j of the shard lies in the bytes `ends[j-1] .. ends[j]-1` (from 0 for j = 0)."""
    crc32: list[int]
    """Checksum of those bytes, so that damage is found at every read and its image is named."""

    @property
    def last(self) -> int:
        """The image after the shard's last one."""
        return self.first + self.samples

    def span(self, image: int) -> tuple[int, int]:
        """(offset, length) in bytes of an image of the set."""
        j = image - self.first
        start = self.ends[j - 1] if j else 0
        return start, self.ends[j] - start


def read_manifest(folder: Path) -> list[Entry]:
    """The shards of a folder, in the order of their images; none if there is no manifest yet.

    Raises:
        RowcastError: if a line is not an entry or the shards do not follow each other without a gap.
    """
    path = folder / FILE
    try:
        lines = complete_lines(path.read_bytes()).splitlines() if path.exists() else []
    except OSError as error:
        raise _damaged(path, f"it cannot be read ({error.strerror})") from None
    latest: dict[str, Entry] = {}
    for number, line in enumerate(lines, start=1):
        try:
            entry = from_json(Entry, json.loads(line))
            _check_entry(entry)
        except ValueError as error:
            raise _damaged(path, f"line {number} is not one: {error}") from None
        latest[entry.shard] = entry
    entries = sorted(latest.values(), key=lambda entry: entry.first)
    _check_tiling(path, entries)
    return entries


def append_entry(folder: Path, entry: Entry) -> None:
    """Enters a shard that is on disk, complete, under its final name."""
    append_durably(folder / FILE, json.dumps(asdict(entry), separators=(",", ":")))


def _check_entry(entry: Entry) -> None:
    """Raises ValueError for what would be read as other bytes, or another file, than a shard's."""
    if not re.fullmatch(r"[\w-]+\.tar", entry.shard):
        raise ValueError(f"{entry.shard!r} is no name of a shard")
    if not entry.samples == len(entry.ends) == len(entry.crc32) > 0:
        raise ValueError(f"{entry.samples} samples have {len(entry.ends)} ends, {len(entry.crc32)} checksums")
    if [0, *entry.ends] != sorted({0, *entry.ends}) or entry.ends[-1] > entry.bytes:
        raise ValueError(f"the ends do not rise to {entry.bytes} bytes at most")


def _check_tiling(path: Path, entries: Sequence[Entry]) -> None:
    image = 0
    for entry in entries:
        if entry.first != image:
            raise _damaged(path, f"{entry.shard} starts at image {entry.first} where {image} is next")
        image = entry.last


def _damaged(path: Path, found: str) -> RowcastError:
    return RowcastError(
        f"expected a manifest of rollout shards in {path}, found that {found}: "
        "restore the file, or delete it and run `python -m data` again to make the set anew"
    )
