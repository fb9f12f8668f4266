"""Rollouts: the frozen backbone paints prompts with its own sampling settings, and the token ids are kept.

A set holds `contract.json` (what all images share), shards, and for each complete shard its entry. Image i
is the same whatever the batch, the shards and the number of images asked for, up to rounding.

A shard ends at a multiple of `shard_images`, or where the set ended when it was written, and is never
changed afterwards. Asking for more images later only adds shards; asking for fewer reads the first ones.
A kill at any moment loses at most the shard that is being sampled.

Any number of processes may make one set together, on one machine or many, started together or not: each
claims the shards that it samples, and all of them return when the set is complete.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from backbones.contract import Backbone, Sampling
from backbones.errors import RowcastError
from data import contract as contracts
from data.claims import SUFFIX, Claims, pauses
from data.contract import Contract
from data.damage import damaged
from data.durable import disk_errors
from data.manifest import entry_name, gaps, is_entry, read_manifest, shard_name
from data.plan import Plan
from data.processes import rank_and_count
from data.quarantine import QUARANTINE, STOP, Mender
from data.rollouts import RolloutSet
from data.sampler import Sampler
from data.shards import Rollout, pack, publish
from data.storage import Storage, open_storage
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
    on_damage: str = STOP,
) -> RolloutSet:
    """Makes what is missing of a set of `images` rollouts, and opens it.

    Args:
        backbone: The frozen model.
        prompts: Each is painted once before any is painted again; repeated ones count once.
        folder: Where the set lies, or will lie: a folder or a URL.
        images: Size of the set.
        batch: Images sampled together; a batch never spans two shards.
        shard_images: Images in a full shard.
        seed: With the prompt and its sample index, fixes an image's random numbers.
        sampling: None for the backbone's own.
        on_damage: `stop` raises at a damaged shard, now and whenever the set is read; `quarantine` moves it
            aside and samples anew what it lost.

    Raises:
        RowcastError: if the folder holds rollouts of another contract, is damaged or full, or if the model
            cannot take a prompt (found before the first image is sampled).
    """
    sizes = {"images": images, "batch": batch, "shard_images": shard_images, "prompts": len(prompts)}
    for name, value in sizes.items():
        if value < 1:
            raise RowcastError(f"expected rollouts.{name} of at least 1, found {value}: raise it")
    sampling = sampling or backbone.sampling
    work = _Work(
        storage=open_storage(folder),
        contract=Contract.of(backbone, sampling, seed, prompts),
        sampler=Sampler(backbone, Plan(prompts, seed), sampling, seed, batch),
        images=images,
        shard_images=shard_images,
    )
    mend = Mender(work.storage, work.sampler) if on_damage == QUARANTINE else None
    with disk_errors(work.storage.place):
        work.sign()
        ranges = work.missing(skip_damaged=mend is not None)
        if ranges:
            work.sampler.check_prompts([image for part in ranges for image in part])
            work.fill(ranges)
        work.tidy()
    return RolloutSet(work.storage, images, mend=mend)


def rollouts_at_once(
    backbone: Backbone, sampling: Sampling, prompts: Sequence[str], wanted: int | None
) -> int:
    """`rollouts.batch`: what was asked for if it fits into memory, or as many as fit, at most `MOST`.

    Raises:
        NoRoomError: if they do not fit, with the largest number that does.
    """
    return images_at_once(backbone, sampling, prompts, wanted=wanted, most=MOST, option="rollouts.batch")


@dataclass(frozen=True, kw_only=True)
class _Work:
    """One process's part in making a set."""

    storage: Storage
    contract: Contract
    sampler: Sampler
    images: int
    shard_images: int

    def sign(self) -> None:
        """Writes the contract of a new set.

        One without an image and without anybody at work, perhaps of mistaken options, binds nobody.

        Raises:
            RowcastError: if there are shards of which nobody can say what made them.
        """
        sizes = self.storage.sizes()
        entries = any(map(is_entry, sizes))
        claims = Claims(self.storage)
        if entries and contracts.FILE not in sizes:
            raise RowcastError(
                f"expected {contracts.FILE} beside the shards in {self.storage.place}, found none: "
                "restore it, or set another rollouts.folder"
            )
        if not entries and not any(name.endswith(SUFFIX) and not claims.dead(name) for name in sizes):
            contracts.write_contract(self.storage, self.contract)

    def missing(self, *, skip_damaged: bool) -> list[range]:
        """The images to sample, one range for each shard to write.

        Raises:
            RowcastError: if the set was made under another contract, or a shard's size is not right.
        """
        self._check_contract()
        sizes = self.storage.sizes()
        entries = [entry for entry in read_manifest(self.storage, sizes) if entry.first < self.images]
        ranges = []
        for entry in entries:
            if entry.shard not in sizes:
                ranges.append(range(entry.first, entry.last))
            elif sizes[entry.shard] != entry.bytes and not skip_damaged:
                raise damaged(self.storage, entry)
        for gap in gaps(entries, self.images):
            image = gap.start
            while image < gap.stop:
                end = min((image // self.shard_images + 1) * self.shard_images, gap.stop)
                ranges.append(range(image, end))
                image = end
        return ranges

    def fill(self, ranges: Sequence[range]) -> None:
        """Samples and publishes shards until all of them are there, whoever made them."""
        claims, pause = Claims(self.storage), pauses()
        bar = _Bar(max(self.images, *(part.stop for part in ranges)), ranges)
        with bar:
            while ranges := self._open(ranges):
                bar.show(ranges)
                part = next((part for part in self._in_order(ranges) if claims.take(shard_name(part))), None)
                if part is None:
                    bar.wait(len(ranges))
                    next(pause)
                    continue
                pause = pauses()
                with claims.held(shard_name(part)):
                    if self._open([part]):  # it may have been finished before the claim was ours
                        self._make(part, ranges, bar)
            bar.show([])

    def tidy(self) -> None:
        """Removes what killed processes left, once nobody is at work."""
        claims = Claims(self.storage)
        with suppress(OSError):  # it does no harm where it may not be removed
            found = [name for name in self.storage.sizes() if name.endswith(SUFFIX)]
            dead = [claim for claim in found if claims.dead(claim)]
            for claim in dead:
                self.storage.remove(claim)
            if dead == found:
                self.storage.clear()

    def _make(self, part: range, ranges: Sequence[range], bar: "_Bar") -> None:
        rollouts: list[Rollout] = []
        for batch in self.sampler(part):
            rollouts += batch
            if bar.shown:
                bar.show(self._open(ranges), len(rollouts))
        # Others may have begun a set of other options here at the same moment.
        self._check_contract()
        grid, sampling = self.contract.grid, self.contract.sampling
        publish(self.storage, *pack(rollouts, part.start, grid=grid, sampling=sampling))

    def _check_contract(self) -> None:
        contracts.read_contract(self.storage).check(self.storage.place, self.contract)

    def _open(self, ranges: Sequence[range]) -> list[range]:
        """Those of the ranges that are not complete."""
        sizes = self.storage.sizes()
        return [part for part in ranges if not _is_complete(shard_name(part), sizes)]

    def _in_order(self, ranges: Sequence[range]) -> list[range]:
        """This process's own shards, then those of others, which may be slower or gone."""
        rank, count = rank_and_count()
        return sorted(ranges, key=lambda part: (part.start // self.shard_images - rank) % count)


def _is_complete(shard: str, sizes: Mapping[str, int]) -> bool:
    return shard in sizes and entry_name(shard) in sizes


class _Bar:
    """Progress over the whole set, whoever makes it; shown by the first of the processes alone."""

    def __init__(self, total: int, ranges: Sequence[range]) -> None:
        left = sum(map(len, ranges))
        self.shown = rank_and_count()[0] == 0
        options = {"desc": "rollouts", "unit": "image", "dynamic_ncols": True, "disable": not self.shown}
        self._bar = tqdm(total=total, initial=total - left, **options)
        self._total = total

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def show(self, ranges: Sequence[range], sampled: int = 0) -> None:
        """Shows what is done.

        Args:
            ranges: What is not complete.
            sampled: Images of those that this process has.
        """
        done = min(self._total, self._total - sum(map(len, ranges)) + sampled)
        self._bar.set_postfix_str("", refresh=False)
        self._bar.update(done - self._bar.n)

    def wait(self, shards: int) -> None:
        """Says that other processes have the rest."""
        self._bar.set_postfix_str(f"{shards} shards of other processes to come")
