"""Sets of rollouts with random tokens, written by the real code."""

from pathlib import Path

import torch

from backbones.contract import Grid, Sampling
from data.contract import Contract, write_contract
from data.manifest import Entry, read_manifest
from data.shards import Rollout, image_key, pack, publish
from data.storage import open_storage

GRID = Grid(rows=3, cols=4)
SAMPLING = Sampling(guidance=2.0, top_k=5)


def rollout(image: int, prompt: str = "a red sneaker on blue") -> Rollout:
    generator = torch.Generator().manual_seed(image)
    return Rollout(
        key=image_key(image),
        prompt=f"{prompt} {image}",
        tokens=torch.randint(11, (GRID.size,), generator=generator),
        seed=7,
        sample=0,
    )


def write_set(folder: Path | str, images: int = 12, shard_images: int = 5) -> Path | str:
    """A folder or URL with the shards of `images` images."""
    storage = open_storage(folder)
    contract = Contract(
        backbone="tiny", fingerprint="f00", grid=GRID, codes=11, sampling=SAMPLING, seed=7, prompts="0"
    )
    write_contract(storage, contract)
    for first in range(0, images, shard_images):
        rollouts = [rollout(image) for image in range(first, min(first + shard_images, images))]
        publish(storage, *pack(rollouts, first, grid=GRID, sampling=SAMPLING))
    return folder


def entries(folder: Path | str) -> list[Entry]:
    """What is known of the shards of a set."""
    return read_manifest(open_storage(folder))


def shards(folder: Path | str) -> dict[str, bytes]:
    """The shards of a set, by name."""
    return {name: content for name, content in files(folder).items() if name.endswith(".tar")}


def files(folder: Path | str) -> dict[str, bytes]:
    """All of a set, by name."""
    storage = open_storage(folder)
    return storage.read_all(sorted(storage.sizes()))
