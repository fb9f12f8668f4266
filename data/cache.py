"""Tensors on disk under a cap, found by the hash of what they depend on: the store behind `data.mode=states`.

A folder holds one subfolder a writer. A process takes the first that no other holds, writes there alone, and
reads what all have finished; so ranks, nodes and runs share a folder without speaking to each other.

What is kept stays: once the cap is reached nothing more is stored. Epochs pass over all images in a new
order each time, where the usual rule (drop what was used longest ago) would drop most of what is needed next.
Room is only made by dropping shards of other contents: of another model, set of images or guidance, the
oldest first, and none that a live process uses.

A cache can only save time. Where the disk is full or a file is damaged, a line says so and the work is done.
"""

import fcntl
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO

from torch import Tensor
from tqdm import tqdm

from backbones.durable import only_writer
from backbones.errors import RowcastError
from data.state_shards import (
    END,
    Entry,
    OpenShard,
    cost,
    decode,
    encode,
    index_of,
    read_index,
    remove,
    write_index,
)

SHARD_BYTES = 64 * 10**6
"""The most that a kill can lose of what was kept, unless an entry alone is larger."""
GB = 10**9
LOCK = ".lock"


class StateCache:
    """Entries of one content, kept by this process or found in the folder.

    Args:
        folder: Of the cache; it may hold other contents too.
        limit: The most bytes of the folder.
        content: Names what all entries have in common: they are dropped together.
        spare: Bytes of the disk that are left to others, such as checkpoints.

    Raises:
        RowcastError: if the folder cannot be written.
    """

    def __init__(self, folder: Path | str, *, limit: int, content: str, spare: int = 0) -> None:
        self._folder, self._limit, self._content, self._spare = Path(folder), limit, content[:16], spare
        self._open: OpenShard | None = None
        self.full = False
        """Whether nothing more is kept."""
        try:
            self._own, self._lock = self._claim()
            self._entries = self._found()
        except OSError as error:
            raise RowcastError(
                f"expected to write states to {folder}, found: {error.strerror}; permit it, or set another "
                "data.cache, or data.mode=ids"
            ) from error

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> dict[str, Tensor] | None:
        """The tensors of an entry, on the CPU; none if it is not here, or no longer as it was written."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        try:
            return decode(entry.read())
        except FileNotFoundError:
            pass  # evicted by another run
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            tqdm.write(f"warning: damaged states in {entry.shard}, {reason}: they are computed anew")
            self._forget(key, entry)
        self._entries.pop(key, None)
        return None

    def put(self, key: str, tensors: Mapping[str, Tensor]) -> None:
        """Keeps an entry if there is room."""
        if self.full or key in self._entries:
            return
        content = encode(tensors)
        try:
            shard = self._shard(cost(content))
            if shard is not None:
                self._entries[key] = shard.add(key, content)
        except OSError as error:
            self._stop(f"{error.strerror} in {self._folder}")

    def close(self) -> None:
        """Finishes the last shard and leaves the folder to others."""
        try:
            if self._open is not None:
                self._open.publish()
                self._open = None
        except OSError as error:
            self._stop(f"{error.strerror} in {self._folder}")
        self._lock.close()

    def _claim(self) -> tuple[Path, BinaryIO]:
        """The first subfolder that nobody holds, without what its last holder left unfinished."""
        own, lock = next(filter(None, map(self._try, count())))
        lock.truncate(0)
        lock.write(self._content.encode())
        lock.flush()
        for shard in own.glob("*.tar"):
            if not index_of(shard).exists():
                remove(shard)
        return own, lock

    def _try(self, number: int) -> tuple[Path, BinaryIO] | None:
        own = self._folder / f"{number:03d}"
        with suppress(RowcastError):  # somebody else's
            return own, only_writer(own, "data.cache")
        return None

    def _found(self) -> dict[str, Entry]:
        """The entries of finished shards."""
        entries: dict[str, Entry] = {}
        for shard in sorted(self._folder.glob(f"*/{self._content}-*.tar")):
            entries |= read_index(shard)
        return entries

    def _shard(self, size: int) -> OpenShard | None:
        """The shard for an entry of `size` bytes; none if the cap is reached."""
        if self._open is not None and self._open.used + size > self._open.room:
            self._open.publish()
            self._open = None
        if self._open is None:
            with self._alone():
                room = self._room(size + END)
                if room:
                    self._open = OpenShard(self._next(), room)
        return self._open

    def _room(self, least: int) -> int:
        """Bytes for a new shard, at least so many; 0 if there are none."""
        sizes = {path: path.stat().st_size for path in self._folder.glob("*/*") if path.is_file()}
        left = self._limit - sum(sizes.values())
        for shard in self._droppable() if left < least else ():
            left += sizes.get(shard, 0)
            remove(shard)
            if left >= least:
                break
        if left < least:
            self._stop(f"the {self._limit / GB:g} GB of data.cache_gb are used")
            return 0
        room = max(least, min(SHARD_BYTES, left))
        if shutil.disk_usage(self._folder).free - room < self._spare:
            self._stop(f"the last {self._spare / GB:.1f} GB of the disk are for checkpoints")
            return 0
        return room

    def _droppable(self) -> list[Path]:
        """Shards of contents that no live process holds, oldest first."""
        used = {self._content} | {_holder(path) for path in self._folder.glob(f"*/{LOCK}")}
        shards = [path for path in self._folder.glob("*/*.tar") if path.name.partition("-")[0] not in used]
        return sorted(shards, key=lambda path: path.stat().st_mtime)

    def _next(self) -> Path:
        """A name for a new shard."""
        taken = [int(path.stem.partition("-")[2]) for path in self._own.glob(f"{self._content}-*.tar")]
        return self._own / f"{self._content}-{max(taken, default=-1) + 1:06d}.tar"

    def _forget(self, key: str, entry: Entry) -> None:
        """Takes a damaged entry out of its finished shard, so that no later run trips over it."""
        with suppress(OSError):
            found = read_index(entry.shard)
            if found.pop(key, None) is not None:
                write_index(entry.shard, found)

    def _stop(self, reason: str) -> None:
        """Keeps nothing more, and says so."""
        self.full = True
        if self._open is not None:  # half written, on a disk that refuses
            for key in self._open.entries:
                self._entries.pop(key, None)
            with suppress(OSError):
                self._open.abandon()
            self._open = None
        tqdm.write(
            f"states: {len(self)} entries are kept and no more, since {reason}; "
            "those of other images are computed as they are needed"
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lets one process at a time take room."""
        with (self._folder / LOCK).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _holder(path: Path) -> str:
    """The content that a live process works on under this lock; empty if there is none."""
    with path.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return lock.read().decode(errors="replace")
    return ""
