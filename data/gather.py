"""Gathers small shards of neighbouring images into full ones."""

from collections.abc import Mapping

from data.contract import read_contract
from data.damage import DamagedShardError
from data.durable import disk_errors
from data.manifest import Entry, entry_name, read_manifest
from data.rollouts import read_rollout
from data.shards import pack, publish
from data.storage import Storage


def gather(storage: Storage, images: int, shard_images: int) -> None:
    """Writes every full shard whose images all lie in smaller ones, and removes those.

    Nobody else may be reading the set. A kill in between leaves images twice, which does no harm; a damaged
    image keeps its shard, for whoever reads it next.

    Args:
        storage: Where the set lies.
        images: Size of the set.
        shard_images: Images in a full shard.

    Raises:
        RowcastError: if the place cannot be read or written.
    """
    entries = read_manifest(storage)
    holders = {image: entry for entry in entries for image in range(entry.first, entry.last)}
    for start in range(0, images, shard_images):
        part = range(start, min(start + shard_images, images))
        found = {holders[image].shard for image in part if image in holders}
        if len(found) > 1 and all(image in holders for image in part):
            _gather(storage, part, holders)


def _gather(storage: Storage, part: range, holders: Mapping[int, Entry]) -> None:
    contract = read_contract(storage)
    rollouts = [read_rollout(storage, holders[image], image, contract) for image in part]
    whole = [rollout for rollout in rollouts if not isinstance(rollout, DamagedShardError)]
    if len(whole) < len(part):
        return
    content, entry = pack(whole, part.start, grid=contract.grid, sampling=contract.sampling)
    publish(storage, content, entry)
    for piece in {holders[image].shard: holders[image] for image in part}.values():
        if piece.shard != entry.shard and part.start <= piece.first and piece.last <= part.stop:
            with disk_errors(storage.place):
                storage.remove(entry_name(piece.shard))
                storage.remove(piece.shard)
