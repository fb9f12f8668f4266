"""A rollout folder's ways of writing: lines that are appended whole, one sentence for a full disk."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backbones.durable import only_writer, sync
from backbones.errors import RowcastError


def append_durably(path: Path, line: str) -> None:
    """Appends one line; what an earlier, interrupted append left of a line is cut off first."""
    complete = len(complete_lines(path.read_bytes())) if path.exists() else 0
    with path.open("ab") as file:
        file.truncate(complete)
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    sync(path.parent)


def complete_lines(content: bytes) -> bytes:
    """The part of an append-only file that was written to its end."""
    return content[: content.rfind(b"\n") + 1]


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Holds the lock of a rollout folder.

    Raises:
        RowcastError: if another process holds it, or the folder cannot be written.
    """
    with disk_errors(folder):
        lock = only_writer(folder, "rollouts.folder")
    with lock:
        yield


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turns a full, read-only or missing disk into one sentence.

    Raises:
        RowcastError: in place of any `OSError` inside the block.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, FileExistsError | NotADirectoryError):
            raise RowcastError(
                f"expected a folder at {folder}, found a file there or above: set another rollouts.folder"
            ) from error
        raise RowcastError(
            f"expected to write to {folder}, found: {error.strerror}; complete shards are kept: "
            "free or permit the space and run the same command again, or set another rollouts.folder"
        ) from error
