"""What is wrong with a shard that is not as it was written, as far as its bytes tell."""

import tarfile
import zlib

from backbones.errors import RowcastError
from data.manifest import Entry
from data.storage import Storage

BLOCK = tarfile.BLOCKSIZE


class DamagedShardError(RowcastError):
    """A shard that is lost in whole or in part.

    Args:
        entry: The shard as it was written.
        message: The sentence for the user.
        found: What is wrong with it, in a few words.
    """

    def __init__(self, entry: Entry, message: str, found: str) -> None:
        super().__init__(message)
        self.entry = entry
        self.found = found


def damaged(storage: Storage, entry: Entry) -> DamagedShardError:
    """The error for a shard that is not as it was written: what is wrong, from which image on, what to do.

    Raises:
        RowcastError: if the shard is there and cannot be read.
    """
    again = "run `python -m data` with the options of this set to make it again"
    try:
        content = storage.read(entry.shard)
    except FileNotFoundError:
        message = f"expected the shard {storage.place}/{entry.shard}, found none: {again}"
        return DamagedShardError(entry, message, "missing")
    except OSError as error:
        raise unreadable(storage, entry, error) from error
    found = diagnosis(content, entry)
    message = (
        f"expected the shard {storage.place}/{entry.shard} as it was written, found it {found}: set "
        f"data.on_damage=quarantine in training to sample what is lost anew, or delete the shard and {again}"
    )
    return DamagedShardError(entry, message, found)


def unreadable(storage: Storage, entry: Entry, error: OSError) -> RowcastError:
    """The error for a shard whose bytes cannot be had."""
    return RowcastError(
        f"expected to read the shard {storage.place}/{entry.shard}, found: {error.strerror or error}; permit "
        "it, or delete the shard and run `python -m data` with the options of this set to make it again"
    )


def is_whole(content: bytes, entry: Entry, image: int) -> bool:
    """Whether an image's bytes in a shard are those that were written."""
    offset, length = entry.span(image)
    return zlib.crc32(content[offset : offset + length]) == entry.crc32[image - entry.first]


def diagnosis(content: bytes, entry: Entry) -> str:
    """What is wrong with a shard: `cut inside data, first at image 00000006, 4 of 5 images lost`."""
    lost = [image for image in range(entry.first, entry.last) if not is_whole(content, entry, image)]
    if not lost:
        more = len(content) - entry.bytes
        kind = "longer" if more > 0 else "cut" if more < 0 else "changed"
        return f"{kind} after its last image, all {entry.samples} images whole"
    place = f"first at image {lost[0]:08d}, {len(lost)} of {entry.samples} images lost"
    return f"{_kind(content, entry, lost[0])}, {place}"


def _kind(content: bytes, entry: Entry, image: int) -> str:
    """The kind of damage at the first lost image."""
    if not content:
        return "empty"
    start, length = entry.span(image)
    place, end = start, start + length
    while place < end:
        wrong, size = _header(content[place : place + BLOCK], first=place == start)
        if wrong:
            return wrong
        place += BLOCK + -(-size // BLOCK) * BLOCK
        if len(content) < min(place, end):
            return "cut inside data"
    return "with changed bytes"


def _header(header: bytes, *, first: bool) -> tuple[str, int]:
    """What is wrong with the header of an image's member, if anything, and the bytes of the member's data."""
    if not header:
        return "cut between images" if first else "cut between the members of an image", 0
    if len(header) < BLOCK:
        return "cut inside a header", 0
    if not any(header):
        return "with a zeroed header", 0
    try:
        return "", tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape").size
    except tarfile.HeaderError:
        return "with a garbage header", 0
