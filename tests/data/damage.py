"""Ways to damage a shard, by name: what is done to its bytes, and what Rowcast says of it."""

import io
import tarfile
from collections.abc import Callable

from data.manifest import Entry

Damage = Callable[[bytes, Entry], bytes]


def cut(at: Callable[[Entry], int]) -> Damage:
    return lambda content, entry: content[: at(entry)]


def replace(at: Callable[[Entry], int], new: bytes) -> Damage:
    def damage(content: bytes, entry: Entry) -> bytes:
        start = at(entry)
        old = content[start : start + len(new)]
        assert old != new
        return content[:start] + new + content[start + len(new) :]

    return damage


def extra_sample(content: bytes, entry: Entry) -> bytes:
    buffer = io.BytesIO(content[: entry.ends[-1]])
    buffer.seek(entry.ends[-1])
    with tarfile.open(fileobj=buffer, mode="w") as members:
        members.addfile(tarfile.TarInfo("00000099.json"), io.BytesIO(b""))
    return buffer.getvalue()


def flip(content: bytes, entry: Entry) -> bytes:
    place = entry.ends[1] - 512
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def without_one_member(content: bytes, entry: Entry) -> bytes:
    """The second image keeps its first member only; the file keeps its size."""
    start = entry.ends[0]
    gone = content[start + 1024 : entry.ends[1]]
    return content[: start + 1024] + content[entry.ends[1] :] + bytes(len(gone))


KINDS: dict[str, tuple[Damage, str]] = {
    "cut inside data": (cut(lambda entry: entry.ends[1] - 100), "cut inside data"),
    "cut inside a header": (cut(lambda entry: entry.ends[0] + 100), "cut inside a header"),
    "cut between images": (cut(lambda entry: entry.ends[0]), "cut between images"),
    "cut between members": (cut(lambda entry: entry.ends[0] + 1024), "cut between the members of an image"),
    "zeroed header": (replace(lambda entry: entry.ends[0], bytes(512)), "with a zeroed header"),
    "garbage header": (replace(lambda entry: entry.ends[0], b"\xff" * 512), "with a garbage header"),
    "bit flip": (flip, "with changed bytes"),
    "missing member": (without_one_member, "with changed bytes"),
    "empty file": (lambda content, entry: b"", "empty"),
}
"""All of them lose the second image of the shard, or more."""
HARMLESS: dict[str, tuple[Damage, str]] = {
    "extra image": (extra_sample, "changed after its last image"),
    "cut end": (cut(lambda entry: entry.ends[-1] + 600), "cut after its last image"),
    "bytes after the end": (lambda content, entry: content + b"x", "longer after its last image"),
}
