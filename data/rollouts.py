"""A set of rollouts on disk, read by number: `RolloutSet(folder)[i]`."""

import zlib
from bisect import bisect_right
from pathlib import Path

from backbones.errors import RowcastError
from data.contract import read_contract
from data.manifest import read_manifest
from data.shards import (
    Rollout,
    check_content,
    check_size,
    check_tokens,
    damaged,
    image_key,
    read_bytes,
    unpack,
)

__all__ = ["Rollout", "RolloutSet"]


class RolloutSet:
    """The first `images` rollouts of a folder (all of them if None), as a sequence.

    Opening it compares the size of every shard with the manifest; reading an image checks that image's
    checksum; `verify` hashes everything. Shards are read by offset, so an image costs one read.

    Raises:
        RowcastError: if the folder holds no rollouts, too few, or a missing or damaged shard.
    """

    def __init__(self, folder: Path | str, images: int | None = None) -> None:
        self.folder = Path(folder)
        self.contract = read_contract(self.folder)
        entries = read_manifest(self.folder)
        made = entries[-1].last if entries else 0
        self._length = made if images is None else images
        if not 0 < self._length <= made:
            raise RowcastError(
                f"expected {images or 'some'} rollouts in {self.folder}, found {made}: "
                f"run `python -m data rollouts.folder={self.folder}` with the options of this set"
            )
        self._entries = [entry for entry in entries if entry.first < self._length]
        self._firsts = [entry.first for entry in self._entries]
        for entry in self._entries:
            check_size(self.folder, entry)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Rollout:
        """One rollout.

        Raises:
            RowcastError: if its bytes are not those that were written.
        """
        image = range(self._length)[index]
        entry = self._entries[bisect_right(self._firsts, image) - 1]
        offset, length = entry.span(image)
        content = read_bytes(self.folder, entry, offset, length)
        checksum = entry.crc32[image - entry.first]
        if zlib.crc32(content) != checksum:
            raise damaged(self.folder, entry, f"checksum {checksum:08x}", f"{zlib.crc32(content):08x}")
        rollout = unpack(content, image_key(image))
        check_tokens(rollout, self.contract.grid, self.contract.codes)
        return rollout

    def verify(self) -> None:
        """Reads every shard and compares its hash with the manifest.

        Raises:
            RowcastError: naming the first damaged shard, its first damaged image and what to do.
        """
        for entry in self._entries:
            check_content(self.folder, entry)
