"""Files that are whole or absent, whenever the process is killed; and folders with one writer.

At the bottom of the layers, since rollouts, checkpoints, bundles and results are all written this way.
"""

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from backbones.errors import RowcastError

TEMPORARY = ".tmp"
"""Suffix of a file that is not complete."""


def sync(path: Path) -> None:
    """Returns once a file's bytes, or a folder's names, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_synced(path: Path, write: Callable[[Path], object]) -> None:
    """Lets `write` fill `path`, and returns once the bytes are on the disk.

    Raises:
        OSError: if the disk refuses; `path` is then absent.
    """
    try:
        write(path)
        sync(path)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def rename_durably(source: Path, target: Path) -> None:
    """Replaces `target` by `source` of the same folder in one step that survives a crash."""
    source.replace(target)
    sync(target.parent)


def write_durably(path: Path, content: bytes | str) -> None:
    """Puts `content` in place of the file at `path`, which is whole at any moment.

    Raises:
        OSError: if the disk refuses; `path` is then as it was.
    """
    raw = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(path.name + TEMPORARY)
    write_synced(temporary, lambda path: path.write_bytes(raw))
    rename_durably(temporary, path)


def only_writer(folder: Path, option: str) -> BinaryIO:
    """Makes the folder and takes its lock: close the file to release it; the end of the process does too.

    Args:
        folder: what is written to.
        option: the option that sets another folder, for the error.

    Raises:
        RowcastError: if another process holds the lock.
        OSError: if the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / ".lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise RowcastError(
            f"expected to be the only process that writes to {folder}, found another one: "
            f"wait for it to end, or set another {option}"
        ) from None
    return file
