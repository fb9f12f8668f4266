"""Rollouts while training goes on: `data.mode=stream`.

A thread samples the images that the loader will ask for, in that order, some way ahead. Each is published in
the rollouts' place as a shard of its own, so a kill loses no more than the images being sampled, no image is
ever sampled twice, and any other mode goes on with the same set. When training ends the small shards are
gathered into those that `python -m data` would have made.

An image is the same whenever and wherever it is sampled, up to rounding: its batch mates are others here.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from tqdm import tqdm

from backbones.contract import Backbone
from data.claims import PAUSE
from data.contract import read_contract
from data.damage import DamagedShardError
from data.gather import gather
from data.manifest import Entry, read_entry, read_manifest, shard_name
from data.rollouts import MOST_MENDS, read_rollout
from data.sampler import Sampler
from data.shards import Rollout, pack, publish
from data.storage import Storage, open_storage
from data.window import Window


class Stream:
    """A set of rollouts whose images are sampled as they are needed; a dataset for the loader.

    Enter it before the first image is asked for: leaving it ends the thread.

    Args:
        place: Folder or URL of a set that has a contract already.
        images: Size of the set.
        sampler: Of the set; its backbone lends the weights alone.
        pool: The most images of this process that wait to be trained on.
        shard_images: Images in a full shard.
        mend: As in `RolloutSet`.
        shown: Whether this process has the progress bar, and gathers the shards at the end.
    """

    def __init__(
        self,
        place: Storage | Path | str,
        images: int,
        sampler: Sampler,
        *,
        pool: int,
        shard_images: int,
        mend: Callable[[DamagedShardError], None] | None = None,
        shown: bool = True,
    ) -> None:
        self._storage = open_storage(place)
        self.contract = read_contract(self._storage)
        self._images, self._pool, self._shard_images, self._mend = images, pool, shard_images, mend
        self._backbone = sampler.backbone
        self._sampler = sampler
        self._twin: Backbone | None = None
        self._made: dict[int, Entry] = {}
        self._window: Window | None = None
        self._failure: BaseException | None = None
        self._waits = self._stopped = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="rollouts", daemon=True)
        self._shown = shown
        self._bar: tqdm | None = None

    @property
    def folder(self) -> str:
        """The folder or URL."""
        return self._storage.place

    def __len__(self) -> int:
        return self._images

    def __enter__(self) -> "Stream":
        self._index()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop()
        if kind is None and self._shown:
            gather(self._storage, self._images, self._shard_images)

    def foresee(self, steps: Iterator[tuple[int, list[int]]], rank: int, world: int) -> None:
        """Hears what the loader will ask for, and starts the thread at the first time."""
        if len(self._made) < self._images:
            self._index()
        with self._changed:
            self._window = Window(steps, rank, world, images=self._images, pool=self._pool)
            self._changed.notify_all()
        if self._thread.ident is None and len(self._made) < self._images:
            # Now, not earlier: by now the weights are on the device of this process.
            self._twin = self._backbone.twin()
            self._bar = tqdm(
                total=self._images,
                initial=len(self._made),
                desc="rollouts",
                unit="image",
                dynamic_ncols=True,
                disable=not self._shown,
            )
            self._thread.start()

    def __getitem__(self, index: int) -> Rollout:
        """One rollout, as soon as it is made.

        Raises:
            RowcastError: if its bytes are not those that were written and nothing mends them; whatever went
                wrong in the thread.
        """
        image = range(self._images)[index]
        self._wait(image)
        mends = 0
        while isinstance(found := self._read(image), DamagedShardError):
            if self._mend is None or mends == MOST_MENDS:
                raise found
            self._mend(found)
            mends += 1
            self._index()
        with self._changed:
            if self._window is not None:
                self._window.take(image)
            self._changed.notify_all()
        return found

    def _read(self, image: int) -> Rollout | DamagedShardError:
        return read_rollout(self._storage, self._made[image], image, self.contract)

    def _wait(self, image: int) -> None:
        seconds, most = PAUSE
        if self._window is None:
            raise ValueError("a stream has to foresee what is asked of it")
        with self._changed:
            while image not in self._made:
                self._waits = True
                self._changed.notify_all()
                self._raise()
                self._changed.wait(seconds)
                if image not in self._made and not self._window.owns(image):
                    self._look_for(image)
                    seconds = min(2 * seconds, most)
            self._waits = False
            self._raise()

    def _raise(self) -> None:
        """Hands a failure of the thread to the trainer."""
        if self._failure is not None:
            raise self._failure

    def _look_for(self, image: int) -> None:
        """An image that another process samples."""
        entry = read_entry(self._storage, shard_name(range(image, image + 1)))
        if entry is not None:
            self._made[image] = entry
        else:
            self._index()

    def _index(self) -> None:
        """Looks up what is made, by whomever."""
        made = {
            image: entry for entry in read_manifest(self._storage) for image in range(entry.first, entry.last)
        }
        self._made.update({image: entry for image, entry in made.items() if image < self._images})

    # What follows runs in the thread.

    def _run(self) -> None:
        try:
            if self._backbone.device.type != "cuda":
                return self._sample()
            torch.cuda.set_device(self._backbone.device)
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.default_stream())  # which has brought the weights
            with torch.cuda.stream(stream):
                self._sample()
        except BaseException as error:  # it belongs to the trainer
            with self._changed:
                self._failure = None if self._stopped else error
                self._changed.notify_all()

    def _sample(self) -> None:
        assert self._twin is not None
        sampler = Sampler(
            self._twin, self._sampler.plan, self._sampler.sampling, self._sampler.seed, self._sampler.batch
        )
        while images := self._next():
            for rollouts in sampler(images):
                self._publish(images, rollouts)

    def _publish(self, images: Sequence[int], rollouts: Sequence[Rollout]) -> None:
        grid, sampling = self.contract.grid, self.contract.sampling
        for image, rollout in zip(images, rollouts, strict=True):
            content, entry = pack([rollout], image, grid=grid, sampling=sampling)
            publish(self._storage, content, entry)
            with self._changed:
                self._made[image] = entry
                self._show()
                self._changed.notify_all()

    def _next(self) -> list[int]:
        """The images to sample together: a full batch, or fewer if the trainer waits; none at the end."""
        batch = self._sampler.batch
        with self._changed:
            while not self._stopped:
                assert self._window is not None
                missing = self._window.missing(self._made)
                self._show()
                if missing and (len(missing) >= batch or self._waits or self._window.complete):
                    return missing[:batch]
                if not missing and self._window.complete:
                    break
                self._changed.wait()
        return []

    def _show(self) -> None:
        if self._bar is None or self._window is None:
            return
        waits = ", training waits" if self._waits else ""
        self._bar.set_postfix_str(f"pool {self._window.fill(self._made)}/{self._pool}{waits}", refresh=False)
        self._bar.update(len(self._made) - self._bar.n)

    def _stop(self) -> None:
        """Ends the thread, within a forward."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        while self._thread.is_alive():
            if self._twin is not None:
                self._twin.close()
            self._thread.join(timeout=0.1)
        if self._bar is not None:
            self._bar.close()
