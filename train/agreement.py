"""What one process of a run finds, all of them act on: else the others would wait for it for ever."""

from collections.abc import Iterator
from contextlib import contextmanager

from jaxtyping import Bool
from torch import Tensor, distributed

from backbones.errors import RowcastError


class ElsewhereError(RowcastError):
    """An error of another process of the run, which tells the user about it."""


def several() -> bool:
    """Whether other processes train along."""
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def anywhere(flag: Bool[Tensor, ""]) -> bool:
    """Whether `flag` is set in any process; each must ask."""
    if not several():
        return bool(flag)
    found = flag.int()
    distributed.all_reduce(found, op=distributed.ReduceOp.MAX)
    return bool(found)


def raise_together(error: Exception | None) -> None:
    """Raises in every process if any has an error; each must call it.

    The first one that has an error raises its own, which is the one to show; with several, rank 0 has it.

    Raises:
        RowcastError: the own error, or that of the lowest rank that has one.
        ElsewhereError: on all ranks but one.
    """
    if not several():
        if error is not None:
            raise error
        return
    messages: list[str | None] = [None] * distributed.get_world_size()
    distributed.all_gather_object(messages, None if error is None else str(error))
    first = next((message for message in messages if message is not None), None)
    if first is None:
        return
    # Rank 0 has the terminal, so it speaks for a rank that has not.
    if distributed.get_rank() == 0:
        raise error if error is not None else RowcastError(first)
    raise ElsewhereError(first) from error


@contextmanager
def agreed() -> Iterator[None]:
    """A block that succeeds in all processes, or in none; each must enter it.

    Raises:
        RowcastError: on rank 0, with the message of the block that failed.
        ElsewhereError: on the other ranks.
        OSError: on rank 0, if its own block raised it.
    """
    error = None
    try:
        yield
    except (RowcastError, OSError) as caught:
        error = caught
    raise_together(error)


def from_first(value: object) -> object:
    """What rank 0 has, in every process; each must ask."""
    if not several():
        return value
    box = [value]
    distributed.broadcast_object_list(box)
    return box[0]
