"""Steps and batches: an optimiser step takes `trainer.accumulate` batches of every process."""

from collections.abc import Iterator
from typing import Any

from lightning.pytorch import Trainer

from data.loader import ResumableLoader


def step_ended(trainer: Trainer, batch_idx: int) -> bool:
    """Whether the batch was the last one of an optimiser step; nothing is saved or painted in between."""
    return (batch_idx + 1) % trainer.accumulate_grad_batches == 0


def recount(checkpoint: dict[str, Any], accumulate: int) -> None:
    """Makes Lightning's count of batches fit the steps, of which each may have had another number of batches.

    Args:
        checkpoint: As Lightning restores it; changed in place.
        accumulate: Batches a step from now on.
    """
    done = checkpoint["global_step"] * accumulate
    progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
    for counts in (progress["current"], progress["total"]):
        # Saved when the last batch was processed, and not yet counted as complete.
        counts.update(ready=done, started=done, processed=done, completed=max(0, done - 1))


class WholeRun:
    """The batches of a run as one epoch of Lightning's.

    Lightning ends a step with its epoch, however few batches it has, and its epochs have another length on
    another number of processes. Ours go on inside: the loader counts them.

    Args:
        loader: Yields the rest of its epoch each time.
        batches: Of one process in the whole run, those before a resume included.
    """

    def __init__(self, loader: ResumableLoader[Any], batches: int) -> None:
        self._loader = loader
        self._batches = batches

    def __len__(self) -> int:
        return self._batches

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self._loader

    def state_dict(self) -> dict[str, int]:
        """Where the next batch begins, in samples of all processes."""
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Goes on from a saved state."""
        self._loader.load_state_dict(state)
