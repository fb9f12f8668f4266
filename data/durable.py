"""Writing so that a kill at any moment leaves either the old state or the new one, never a mixture."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backbones.errors import RowcastError

TEMPORARY = ".tmp"
"""Suffix of a file that is not complete; safe to delete when nobody holds the lock."""


def write_durably(path: Path, content: bytes) -> None:
    """Writes a whole file under a temporary name, then renames it: the name never shows part of it."""
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def append_durably(path: Path, line: str) -> None:
    """Appends one line; what an earlier, interrupted append left of a line is cut off first."""
    complete = len(complete_lines(path.read_bytes())) if path.exists() else 0
    with path.open("ab") as file:
        file.truncate(complete)
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(path.parent)


def complete_lines(content: bytes) -> bytes:
    """The part of an append-only file that was written to its end."""
    return content[: content.rfind(b"\n") + 1]


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Holds the folder's lock; the system releases it when the process ends, however it ends.

    Raises:
        RowcastError: if another process holds it.
    """
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("ab")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RowcastError(
                f"expected to be the only process that writes to {folder}, found another one: "
                "wait for it to end, or set another rollouts.folder"
            ) from None
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
        raise RowcastError(
            f"expected to write to {folder}, found: {error.strerror}; complete shards are kept: "
            "free or permit the space and run the same command again, or set another rollouts.folder"
        ) from error


def _sync_folder(folder: Path) -> None:
    """A rename survives a power cut only after its folder is synced."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
