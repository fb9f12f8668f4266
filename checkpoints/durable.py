"""Files that are whole or absent, whenever the process is killed."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def write_synced(path: Path, write: Callable[[Path], object]) -> None:
    """Lets `write` fill `path`, and returns once the bytes are on the disk.

    Raises:
        OSError: if the disk refuses; `path` is then absent.
    """
    try:
        write(path)
        with path.open("rb+") as file:
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def rename_durably(source: Path, target: Path) -> None:
    """Replaces `target` by `source` of the same folder in one step that survives a crash."""
    source.replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_durably(path: Path, text: str) -> None:
    """Puts `text` in place of the file at `path`, which is whole at any moment.

    Raises:
        OSError: if the disk refuses; `path` is then as it was.
    """
    partial = path.with_name(path.name + ".partial")
    write_synced(partial, lambda path: path.write_text(text, encoding="utf-8"))
    rename_durably(partial, path)
