"""Damaged shards are moved aside, and what they lost is sampled anew.

An image is a function of (seed, prompt, sample), so on the same kind of machine the new shard is the old one,
bit for bit; that is checked and said. Images whose checksum still holds are kept, so little is sampled.
"""

import sys
from hashlib import sha256

from tqdm import tqdm

from data.claims import Claims
from data.damage import DamagedShardError, is_whole
from data.durable import disk_errors
from data.manifest import Entry, read_entry
from data.sampler import Sampler
from data.shards import Rollout, image_key, pack, publish, unpack
from data.storage import Storage

FOLDER = "quarantine"
STOP, QUARANTINE = "stop", "quarantine"
"""What `data.on_damage` may be."""


class Mender:
    """Puts one damaged shard right at a time; on several processes one does it and the others wait.

    Args:
        storage: Where the set lies.
        sampler: Of the same set.
    """

    def __init__(self, storage: Storage, sampler: Sampler) -> None:
        self._storage = storage
        self._sampler = sampler
        self._claims = Claims(storage)

    def __call__(self, damage: DamagedShardError) -> None:
        """Makes a shard whole again; returns when it is, by whomever.

        Raises:
            RowcastError: if the place cannot be written.
        """
        entry = damage.entry
        with disk_errors(self._storage.place), self._claims.waited_for(entry.shard):
            content = self._storage.read_all([entry.shard]).get(entry.shard)
            if content is not None and self._is_put_right(content, entry):
                return
            aside = None if content is None else self._set_aside(entry.shard)
            self._mend(damage, content or b"", aside)

    def _is_put_right(self, content: bytes, entry: Entry) -> bool:
        now = read_entry(self._storage, entry.shard)
        return now is not None and now.sha256 == sha256(content).hexdigest()

    def _set_aside(self, shard: str) -> str:
        name, number = f"{FOLDER}/{shard}", 0
        while self._storage.read_all([name]):
            number += 1
            name = f"{FOLDER}/{shard}.{number}"
        self._storage.move(shard, name)
        return name

    def _mend(self, damage: DamagedShardError, content: bytes, aside: str | None) -> None:
        entry, place = damage.entry, self._storage.place
        whole = {
            image: self._unpack(content, entry, image)
            for image in range(entry.first, entry.last)
            if is_whole(content, entry, image)
        }
        lost = [image for image in range(entry.first, entry.last) if image not in whole]
        where = f"now {place}/{aside}" if aside else "gone"
        _say(
            f"DAMAGED: the shard {place}/{entry.shard} was found {damage.found}; it is {where}. Sampling "
            f"{len(lost)} images anew (after a kill, `python -m data` with the options of this set does it)"
        )
        # In the batches that the shard was made in, since on a GPU batch mates change the rounding.
        for batch in self._sampler(range(entry.first, entry.last), skip=whole):
            whole |= {int(rollout.key): rollout for rollout in batch if int(rollout.key) in lost}
        rollouts = [whole[image] for image in range(entry.first, entry.last)]
        grid, sampling = self._sampler.backbone.grid, self._sampler.sampling
        remade, new = pack(rollouts, entry.first, grid=grid, sampling=sampling)
        publish(self._storage, remade, new)
        if new.sha256 == entry.sha256:
            _say(f"mended: {place}/{entry.shard} is again what it was, bit for bit")
        else:
            _say(
                f"mended: {place}/{entry.shard} has other images than it had (another machine, version or "
                "rollouts.batch rounds otherwise); they are as good, but the weights to come will be others"
            )

    @staticmethod
    def _unpack(content: bytes, entry: Entry, image: int) -> Rollout:
        offset, length = entry.span(image)
        return unpack(content[offset : offset + length], image_key(image))


def _say(message: str) -> None:
    tqdm.write(message, file=sys.stderr)
