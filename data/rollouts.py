"""A set of rollouts, read by number: `RolloutSet(folder)[i]`."""

import hashlib
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from backbones.errors import RowcastError
from data.contract import Contract, read_contract
from data.damage import DamagedShardError, damaged, unreadable
from data.durable import disk_errors
from data.manifest import Entry, cover, read_manifest
from data.shards import Rollout, check_tokens, image_key, unpack
from data.storage import Storage, open_storage

__all__ = ["Rollout", "RolloutSet"]

MOST_MENDS = 3
"""A disk that damages one shard more often is broken, and only stopping helps."""


class RolloutSet:
    """The first `images` rollouts of a set (all of them if None), as a sequence.

    Opening it compares the size of every shard with its entry; reading an image checks that image's
    checksum; `verify` hashes everything. Shards are read by offset, so an image costs one read.

    Args:
        place: Folder or URL.
        images: How many.
        mend: Makes a damaged shard whole again, whenever one is met; None to raise the damage.

    Raises:
        RowcastError: if there are no rollouts, too few, or a missing or damaged shard.
    """

    def __init__(
        self,
        place: Storage | Path | str,
        images: int | None = None,
        *,
        mend: Callable[[DamagedShardError], None] | None = None,
    ) -> None:
        self._storage = open_storage(place)
        self.contract = read_contract(self._storage)
        self._length = images
        self._mend = mend
        self._damages: Counter[str] = Counter()
        while (damage := self._index()) is not None:
            self._put_right(damage)

    @property
    def folder(self) -> str:
        """The folder or URL."""
        return self._storage.place

    def __len__(self) -> int:
        assert self._length is not None
        return self._length

    def __getitem__(self, index: int) -> Rollout:
        """One rollout.

        Raises:
            RowcastError: if its bytes are not those that were written, and nothing mends them.
        """
        image = range(len(self))[index]
        while isinstance(found := self._read(image), DamagedShardError):
            self._put_right(found)
            self._index()
        return found

    def verify(self) -> None:
        """Reads every shard and compares its hash with its entry.

        Raises:
            RowcastError: naming the first damaged shard, its first damaged image and what to do.
        """
        image = 0
        while image < len(self):
            entry = self._entry(image)
            content = _bytes(self._storage, entry, 0, None)
            if content is not None and hashlib.sha256(content).hexdigest() == entry.sha256:
                image = entry.last
            else:
                self._put_right(damaged(self._storage, entry))
                self._index()

    def _index(self) -> DamagedShardError | None:
        """Looks up where the images lie; returns the first shard that is gone or has another size, if any."""
        with disk_errors(self.folder):
            sizes = self._storage.sizes()
        entries = read_manifest(self._storage, sizes)
        made = max((entry.last for entry in entries), default=0)
        self._length = made if self._length is None else self._length
        # A shard that is gone counts only where no other one holds its images.
        present = [entry for entry in entries if entry.shard in sizes]
        chosen = cover(present, self._length)
        if not chosen or chosen[-1].last < self._length:
            chosen = cover(entries, self._length)
        if not chosen or chosen[-1].last < self._length:
            raise self._too_few(chosen[-1].last if chosen else 0)
        self._entries, self._firsts = chosen, _firsts(chosen)
        wrong = (entry for entry in chosen if sizes.get(entry.shard) != entry.bytes)
        return next((damaged(self._storage, entry) for entry in wrong), None)

    def _put_right(self, damage: DamagedShardError) -> None:
        self._damages[damage.entry.shard] += 1
        if self._mend is None or self._damages[damage.entry.shard] > MOST_MENDS:
            raise damage
        self._mend(damage)

    def _entry(self, image: int) -> Entry:
        return self._entries[bisect_right(self._firsts, image) - 1]

    def _read(self, image: int) -> Rollout | DamagedShardError:
        return read_rollout(self._storage, self._entry(image), image, self.contract)

    def _too_few(self, made: int) -> RowcastError:
        return RowcastError(
            f"expected {self._length or 'some'} rollouts in {self.folder}, found {made}: "
            f"run `python -m data rollouts.folder={self.folder}` with the options of this set"
        )


def _firsts(chosen: list[Entry]) -> list[int]:
    """Where each shard's images begin; its first ones may lie in the shard before, too."""
    return [entry.first if i == 0 else max(entry.first, chosen[i - 1].last) for i, entry in enumerate(chosen)]


def read_rollout(
    storage: Storage, entry: Entry, image: int, contract: Contract
) -> Rollout | DamagedShardError:
    """One image of a shard, or what is wrong with the shard.

    Raises:
        RowcastError: if the shard is there and cannot be read, or holds another model's tokens.
    """
    content = _bytes(storage, entry, *entry.span(image))
    if content is None or zlib.crc32(content) != entry.crc32[image - entry.first]:
        return damaged(storage, entry)
    rollout = unpack(content, image_key(image))
    check_tokens(rollout, contract.grid, contract.codes)
    return rollout


def _bytes(storage: Storage, entry: Entry, offset: int, length: int | None) -> bytes | None:
    """Bytes of a shard; none if it is gone or ends before them."""
    try:
        return storage.read(entry.shard, offset, length)
    except FileNotFoundError:
        return None
    except OSError as error:
        # An object store refuses to read behind the end.
        with disk_errors(storage.place):
            size = storage.sizes().get(entry.shard, 0)
        if size < entry.bytes:
            return None
        raise unreadable(storage, entry, error) from error
