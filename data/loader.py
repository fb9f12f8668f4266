"""Batches for training that can be stopped and resumed anywhere, on any number of ranks.

One global order per epoch, a function of (seed, epoch) alone. A step takes the next `batch * world`
samples of it and rank r takes every world-th of them from r: all ranks get equally many batches, each
sample comes at most once an epoch, and the last, incomplete step is dropped. The state counts samples over
all ranks, so it is the same on every rank and stays right when their number changes.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Generic, Protocol, TypeVar, runtime_checkable

import torch

from backbones.errors import RowcastError

T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class Dataset(Protocol[T_co]):
    """Anything with a length and items by number."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> T_co: ...


@runtime_checkable
class Foresees(Protocol):
    """A dataset that makes its samples as they are needed, and so wants to know which will be."""

    def foresee(self, steps: Iterator[tuple[int, list[int]]], rank: int, world: int) -> None:
        """Hears of the steps to come, as of `ResumableLoader.ahead`; rank r takes `[r::world]` of each."""
        ...


class ResumableLoader(Generic[T_co]):
    """Yields this rank's batches (lists of samples) of the rest of the epoch that the state points into.

    Args:
        dataset: The samples.
        batch: Samples in one rank's batch.
        seed: Fixes the order of every epoch.
    """

    def __init__(self, dataset: Dataset[T_co], batch: int, seed: int) -> None:
        self._dataset = dataset
        self._batch = batch
        self._seed = seed
        self._epoch = 0
        self._seen = 0
        self.epoch = 0
        """Of the batch that was yielded last."""

    def __len__(self) -> int:
        """Batches in a whole epoch, the same on every rank.

        Raises:
            RowcastError: if the set has not one batch for each rank.
        """
        _, world = _rank_and_world()
        length = len(self._dataset) // (self._batch * world)
        if not length:
            raise RowcastError(
                f"expected at least {self._batch * world} rollouts (trainer.batch={self._batch} on {world} "
                f"ranks), found {len(self._dataset)}: raise rollouts.images or lower trainer.batch"
            )
        return length

    def __iter__(self) -> Iterator[list[T_co]]:
        # The ranks are asked for here, not in __init__: the process group exists by now.
        rank, world = _rank_and_world()
        step = self._batch * world
        if isinstance(self._dataset, Foresees):
            self._dataset.foresee(self.ahead(), rank, world)
        epoch, steps = next(groupby(self.ahead(), itemgetter(0)))
        end = self._seen if epoch == self._epoch else 0
        for _, indices in steps:
            end += step
            # Moved on before the yield: a trainer saves while it holds a batch and may never come back.
            more = end + step <= len(self) * step
            self._epoch, self._seen = (epoch, end) if more else (epoch + 1, 0)
            samples = [self._dataset[index] for index in indices[rank::world]]
            self.epoch = epoch
            yield samples

    def ahead(self) -> Iterator[tuple[int, list[int]]]:
        """Every step from here on, epoch after epoch, without end: (its epoch, the indices of all ranks)."""
        _, world = _rank_and_world()
        return self._steps(self._epoch, self._seen, len(self), self._batch * world)

    def _steps(self, epoch: int, seen: int, length: int, step: int) -> Iterator[tuple[int, list[int]]]:
        while True:
            order = self._order(epoch)
            for start in range(seen, (length - 1) * step + 1, step):
                yield epoch, order[start : start + step]
            epoch, seen = epoch + 1, 0

    def state_dict(self) -> dict[str, int]:
        """Where the next batch begins; equal on all ranks."""
        return {"epoch": self._epoch, "seen": self._seen}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Goes on from a saved state."""
        self._epoch, self._seen = state["epoch"], state["seen"]

    def _order(self, epoch: int) -> list[int]:
        seed = (self._seed * 1_000_003 + epoch) % 2**63
        generator = torch.Generator().manual_seed(seed)
        return torch.randperm(len(self._dataset), generator=generator).tolist()


def _rank_and_world() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
