"""What a set of rollouts takes on disk, before there is one: by the code that packs shards."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from backbones.contract import Grid, Sampling
from backbones.errors import NoRoomError
from data.manifest import encoded
from data.plan import Plan
from data.shards import Rollout, image_key, pack

SAMPLED = 16
"""Shards that are packed, evenly through the set; the others are taken to be like them."""
CONTRACT = 370
"""Bytes of the contract of a set, more or less."""


@dataclass(frozen=True, kw_only=True)
class RolloutBytes:
    """Bytes of a set."""

    shards: int
    manifest: int
    """What is known of each shard, and the contract, beside them."""


def rollout_bytes(
    prompts: Sequence[str],
    *,
    images: int,
    shard_images: int,
    seed: int,
    grid: Grid,
    sampling: Sampling,
) -> RolloutBytes:
    """Bytes of a new set: exact to the byte for the shards up to `SAMPLED` of them.

    Args:
        prompts: as for `make_rollouts`, and so the other arguments.
        images: size of the set.
        shard_images: images in a full shard.
        seed: of the set.
        grid: of an image.
        sampling: how tokens are drawn.
    """
    plan = Plan(prompts, seed)
    tokens = torch.zeros(grid.size, dtype=torch.long)

    def packed(first: int) -> tuple[int, int]:
        shard = []
        for image in range(first, min(first + shard_images, images)):
            prompt, sample = plan[image]
            shard.append(
                Rollout(key=image_key(image), prompt=prompt, tokens=tokens, seed=seed, sample=sample)
            )
        content, entry = pack(shard, first, grid=grid, sampling=sampling)
        return len(content), len(encoded(entry))

    starts = range(0, images, shard_images)
    whole, rest = starts[: images // shard_images], starts[images // shard_images :]
    chosen = [packed(first) for first in whole[:: max(1, len(whole) // SAMPLED)]]
    scale = len(whole) / max(1, len(chosen))
    last = [packed(first) for first in rest]
    shards, manifest = (
        round(scale * sum(size[i] for size in chosen)) + sum(size[i] for size in last) for i in (0, 1)
    )
    return RolloutBytes(shards=shards, manifest=manifest + CONTRACT)


def check_disk(folder: str, needed: RolloutBytes) -> None:
    """Refuses a set that its disk has no room for; a set on an object store is not judged.

    Raises:
        NoRoomError: saying what is needed and what is free.
    """
    missing = needed.shards + needed.manifest - occupied(folder)
    free = free_bytes(folder)
    if free is not None and missing > free:
        raise NoRoomError(
            f"expected {missing / 1e9:.3g} GB free for {folder}, found {free / 1e9:.3g} GB: "
            "lower rollouts.images, or set rollouts.folder= on a larger disk"
        )


def disk_of(folder: str) -> Path | None:
    """The nearest folder that exists at or above a place; none for a URL."""
    if "://" in folder:
        return None
    place = Path(folder).resolve()
    while not place.exists():
        place = place.parent
    return place


def free_bytes(folder: str) -> int | None:
    """Free bytes of the disk that a folder is on, or will be; none for a URL."""
    place = disk_of(folder)
    return None if place is None else shutil.disk_usage(place).free


def occupied(folder: str) -> int:
    """Bytes that lie in a file or folder already."""
    place = Path(folder)
    return sum(map(_size, [place] if place.is_file() else place.rglob("*")))


def _size(path: Path) -> int:
    """Bytes of a file; none of what another process has just removed."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0
