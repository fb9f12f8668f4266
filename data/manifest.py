"""What is known of each complete shard: `<shard>.json` beside `<shard>.tar`, written after it.

A tar reader takes most kinds of damage for the end of the archive and says nothing, so the truth about a
shard (its bytes, its hash, where each image ends) is kept here. An entry is a file of its own: any number
of processes and machines enter their shards, and none of them ever changes a file of another.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from backbones.errors import RowcastError
from data.durable import disk_errors
from data.record import from_json
from data.storage import Storage

ENTRY = re.compile(r"rollouts-\d{8}-\d{8}\.json")


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


def shard_name(images: range) -> str:
    """The file of some images that follow each other."""
    return f"rollouts-{images.start:08d}-{images.stop:08d}.tar"


def entry_name(shard: str) -> str:
    """The file that holds a shard's entry."""
    return shard.removesuffix(".tar") + ".json"


def is_entry(name: str) -> bool:
    """Whether a file of this name holds an entry."""
    return ENTRY.fullmatch(name) is not None


def read_manifest(storage: Storage, sizes: Mapping[str, int] | None = None) -> list[Entry]:
    """The entries of a set, in the order of their images; none if there are none yet.

    Args:
        storage: Where the set lies.
        sizes: The files there, if the caller has just looked.

    Raises:
        RowcastError: if an entry cannot be read, or is not one.
    """
    with disk_errors(storage.place):
        sizes = storage.sizes() if sizes is None else sizes
        contents = storage.read_all(sorted(filter(is_entry, sizes)))
    entries = []
    for name, content in contents.items():
        try:
            entry = from_json(Entry, json.loads(content))
            _check_entry(entry, name)
        except ValueError as error:
            raise RowcastError(
                f"expected the entry of a shard in {storage.place}/{name}, found another thing: {error}; "
                "delete it and run `python -m data` with the options of this set to make its shard anew"
            ) from None
        entries.append(entry)
    return sorted(entries, key=lambda entry: (entry.first, -entry.last))


def read_entry(storage: Storage, shard: str) -> Entry | None:
    """The entry of one shard as it is now; none if it is gone."""
    return next(iter(read_manifest(storage, {entry_name(shard): 0})), None)


def encoded(entry: Entry) -> bytes:
    """The content of an entry's file."""
    return json.dumps(asdict(entry), separators=(",", ":")).encode() + b"\n"


def cover(entries: Sequence[Entry], images: int) -> list[Entry]:
    """The fewest shards that hold the images `0 .. images-1`, or all up to the first gap.

    Shards overlap where processes were asked for different numbers of images at a time. An image is the
    same in each of its shards.
    """
    chosen: list[Entry] = []
    ahead = sorted(entries, key=lambda entry: entry.first)[::-1]
    image, widest = 0, None
    while image < images:
        while ahead and ahead[-1].first <= image:
            entry = ahead.pop()
            widest = entry if widest is None or entry.last > widest.last else widest
        if widest is None or widest.last <= image:
            break
        chosen.append(widest)
        image = widest.last
    return chosen


def gaps(entries: Sequence[Entry], images: int) -> list[range]:
    """The images of `0 .. images-1` that no entry holds."""
    found: list[range] = []
    image = 0
    for entry in sorted(entries, key=lambda entry: entry.first):
        if entry.first > image:
            found.append(range(image, min(entry.first, images)))
        image = max(image, entry.last)
        if image >= images:
            break
    else:
        found.append(range(image, images))
    return [gap for gap in found if gap]


def _check_entry(entry: Entry, name: str) -> None:
    """Raises ValueError for what would be read as other bytes, or another file, than a shard's."""
    if not entry.samples == len(entry.ends) == len(entry.crc32) > 0:
        raise ValueError(f"{entry.samples} samples have {len(entry.ends)} ends, {len(entry.crc32)} checksums")
    if entry.first < 0 or entry.shard != shard_name(range(entry.first, entry.last)):
        raise ValueError(f"{entry.shard!r} is no name of a shard of these images")
    if name != entry_name(entry.shard):
        raise ValueError(f"it is of {entry.shard}")
    if [0, *entry.ends] != sorted({0, *entry.ends}) or entry.ends[-1] > entry.bytes:
        raise ValueError(f"the ends do not rise to {entry.bytes} bytes at most")
