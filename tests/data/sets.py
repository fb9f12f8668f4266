"""Sets of rollouts with random tokens, written by the real code."""

from pathlib import Path

import torch

from backbones.contract import Grid, Sampling
from data.contract import Contract, write_contract
from data.shards import Rollout, image_key, pack, publish

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


def write_set(folder: Path, images: int = 12, shard_images: int = 5) -> Path:
    """A folder with the shards of `images` images."""
    folder.mkdir(parents=True)
    contract = Contract(
        backbone="tiny", fingerprint="f00", grid=GRID, codes=11, sampling=SAMPLING, seed=7, prompts="0"
    )
    write_contract(folder, contract)
    for first in range(0, images, shard_images):
        rollouts = [rollout(image) for image in range(first, min(first + shard_images, images))]
        publish(folder, *pack(rollouts, first, grid=GRID, sampling=SAMPLING))
    return folder


def shards(folder: Path) -> dict[str, bytes]:
    """The shards of a set, by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.tar"))}
