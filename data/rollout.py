"""Rollouts: the frozen backbone paints prompts with its own sampling settings, and the token ids are kept.

A folder holds `contract.json` (what all images share), shards, and `manifest.jsonl` (which are complete).
Image i is the same whatever the batch, the shards and the number of images asked for, up to rounding.

A shard ends at a multiple of `shard_images`, or where the set ended when it was written, and is never
changed afterwards. Asking for more images later only adds shards; asking for fewer reads the first ones.
A kill at any moment loses at most the shard that is being sampled.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from backbones.contract import Backbone, Sampling
from backbones.durable import TEMPORARY
from backbones.errors import RowcastError
from data import contract as contracts
from data import manifest as manifests
from data.contract import Contract
from data.durable import disk_errors, exclusive
from data.plan import Plan
from data.rollouts import RolloutSet
from data.shards import Rollout, check_size, image_key, pack, publish
from decoding.engine import generate
from decoding.methods import build_method
from decoding.noise import Noise
from decoding.room import images_at_once

MOST = 32
"""Images sampled at a time where nobody asks for a number: more take more memory and save little time."""


def make_rollouts(
    backbone: Backbone,
    prompts: Sequence[str],
    folder: Path | str,
    *,
    images: int,
    batch: int,
    shard_images: int,
    seed: int,
    sampling: Sampling | None = None,
) -> RolloutSet:
    """Makes what is missing of a set of `images` rollouts, and opens it.

    Args:
        backbone: The frozen model.
        prompts: Each is painted once before any is painted again; repeated ones count once.
        folder: Where the set lies, or will lie.
        images: Size of the set.
        batch: Images sampled together; a batch never spans two shards.
        shard_images: Images in a full shard.
        seed: With the prompt and its sample index, fixes an image's random numbers.
        sampling: None for the backbone's own.

    Raises:
        RowcastError: if the folder holds rollouts of another contract, is damaged, full or in use, or
            if the model cannot take a prompt (found before the first image is sampled).
    """
    folder = Path(folder)
    sizes = {"images": images, "batch": batch, "shard_images": shard_images, "prompts": len(prompts)}
    for name, value in sizes.items():
        if value < 1:
            raise RowcastError(f"expected rollouts.{name} of at least 1, found {value}: raise it")
    sampling = sampling or backbone.sampling
    contract = Contract.of(backbone, sampling, seed, prompts)
    if _is_new(folder) or _missing(folder, contract, images, shard_images):
        with exclusive(folder):
            if _is_new(folder):
                contracts.write_contract(folder, contract)
            # Looked up again: another process may have worked on the set before the lock was ours.
            ranges = _missing(folder, contract, images, shard_images)
            _clear_temporaries(folder)
            sampler = _Sampler(backbone, Plan(prompts, seed), sampling, seed, batch)
            _fill(folder, sampler, ranges, images)
    return RolloutSet(folder, images)


def rollouts_at_once(
    backbone: Backbone, sampling: Sampling, prompts: Sequence[str], wanted: int | None
) -> int:
    """`rollouts.batch`: what was asked for if it fits into memory, or as many as fit, at most `MOST`.

    Raises:
        RowcastError: if they do not fit, with the largest number that does.
    """
    return images_at_once(backbone, sampling, prompts, wanted=wanted, most=MOST, option="rollouts.batch")


@dataclass(frozen=True)
class _Sampler:
    """Samples images of one set by their numbers."""

    backbone: Backbone
    plan: Plan
    sampling: Sampling
    seed: int
    batch: int

    def check_prompts(self, images: Sequence[int]) -> None:
        """Lets the model refuse a prompt now, not hours later."""
        prompts = list(dict.fromkeys(self.plan[image][0] for image in images))
        for start in range(0, len(prompts), self.batch):
            self.backbone.encode(prompts[start : start + self.batch], self.sampling.guidance != 1)

    def __call__(self, images: range) -> Iterator[list[Rollout]]:
        """The images in batches."""
        method = build_method("ar", {}, None)
        for start in range(images.start, images.stop, self.batch):
            part = range(start, min(start + self.batch, images.stop))
            prompts, samples = zip(*(self.plan[image] for image in part), strict=True)
            noise = Noise(self.seed, prompts, samples)
            tokens = generate(self.backbone, prompts, method, noise, self.sampling).tokens.cpu()
            yield [
                Rollout(key=image_key(image), prompt=prompt, tokens=row, seed=self.seed, sample=sample)
                for image, prompt, sample, row in zip(part, prompts, samples, tokens, strict=True)
            ]


def _fill(folder: Path, sampler: _Sampler, ranges: Sequence[range], images: int) -> None:
    """Samples and publishes one shard for each range of images."""
    missing = [image for shard in ranges for image in shard]
    sampler.check_prompts(missing)
    total = max(images, *(shard.stop for shard in ranges))
    done = total - len(missing)
    with tqdm(total=total, initial=done, desc="rollouts", unit="image", dynamic_ncols=True) as bar:
        for shard in ranges:
            rollouts: list[Rollout] = []
            for part in sampler(shard):
                rollouts += part
                bar.update(len(part))
            content, entry = pack(
                rollouts, shard.start, grid=sampler.backbone.grid, sampling=sampler.sampling
            )
            publish(folder, content, entry)


def _is_new(folder: Path) -> bool:
    """Whether no image was ever made here; a contract alone, perhaps of mistaken options, binds nobody.

    Raises:
        RowcastError: if there are shards of which nobody can say what made them.
    """
    new = not manifests.read_manifest(folder)
    if not new and not (folder / contracts.FILE).exists():
        raise RowcastError(
            f"expected {contracts.FILE} beside {manifests.FILE} in {folder}, found none: "
            "restore it, or set another rollouts.folder"
        )
    return new


def _missing(folder: Path, contract: Contract, images: int, shard_images: int) -> list[range]:
    """The images to sample, one range for each shard to write.

    Raises:
        RowcastError: if the folder was made under another contract, or a shard's size is not right.
    """
    contracts.read_contract(folder).check(folder, contract)
    ranges = []
    made = 0
    for entry in manifests.read_manifest(folder):
        made = entry.last
        if entry.first < images:
            if (folder / entry.shard).exists():
                check_size(folder, entry)
            else:
                ranges.append(range(entry.first, entry.last))
    while made < images:
        end = min((made // shard_images + 1) * shard_images, images)
        ranges.append(range(made, end))
        made = end
    return ranges


def _clear_temporaries(folder: Path) -> None:
    """Removes what a kill left half written; the caller holds the lock."""
    with disk_errors(folder):
        for path in folder.glob(f"*{TEMPORARY}"):
            path.unlink()
