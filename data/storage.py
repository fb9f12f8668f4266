"""Where rollouts lie: a folder, or whatever fsspec has a URL for (`s3://bucket/rollouts`, `gs://`, ...).

A file of a set is written whole, under a name that says what it holds, and by whoever comes first. So any
number of processes and machines write to one place, and nothing here locks or appends.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, runtime_checkable
from uuid import uuid4

from backbones.durable import TEMPORARY, rename_durably, sync, write_synced


@runtime_checkable
class Storage(Protocol):
    """Files by name. Every method raises OSError where the place refuses."""

    place: str
    """The folder or URL, for messages."""

    def sizes(self) -> dict[str, int]:
        """The files right here, with their bytes; none if the place does not exist yet."""
        ...

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of a file, up to its end if no length is given; fewer where it ends before."""
        ...

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Whole files, at once; what is gone by now is left out."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Puts a file in place, which is the old one or the new one, whole, at any moment."""
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Writes a file if there is none of its name, and says whether it did."""
        ...

    def move(self, name: str, target: str) -> None:
        """Gives a file another name; `target` may lie one folder down."""
        ...

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        ...

    def clear(self) -> None:
        """Removes what killed processes left half written; call it when nobody writes."""
        ...


def open_storage(place: "Storage | Path | str") -> Storage:
    """The storage of a folder or URL.

    Raises:
        RowcastError: if fsspec does not know the URL, or lacks a package for it.
    """
    if isinstance(place, Storage):
        return place
    text = str(place)
    if text.startswith("file://"):
        return Folder(Path(text.removeprefix("file://")))
    if "://" in text:
        from data.bucket import open_bucket

        return open_bucket(text)
    return Folder(Path(place))


class Folder:
    """A folder of this machine, or of a network file system."""

    def __init__(self, folder: Path) -> None:
        self.place = str(folder)
        self._folder = folder

    def sizes(self) -> dict[str, int]:
        """As `Storage`."""
        sizes: dict[str, int] = {}
        with suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # gone since
                    if entry.is_file():
                        sizes[entry.name] = entry.stat().st_size
        return sizes

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """As `Storage`."""
        with (self._folder / name).open("rb", buffering=0) as file:
            return os.pread(file.fileno(), length, offset) if length is not None else file.read()

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """As `Storage`."""
        contents: dict[str, bytes] = {}
        for name in names:
            with suppress(FileNotFoundError):
                contents[name] = self.read(name)
        return contents

    def write(self, name: str, content: bytes) -> None:
        """As `Storage`; returns once the bytes and the name are on the disk."""
        self._folder.mkdir(parents=True, exist_ok=True)
        # A name of its own, since two processes may write one file at a time.
        temporary = self._folder / f"{name}.{uuid4().hex[:8]}{TEMPORARY}"
        write_synced(temporary, lambda path: path.write_bytes(content))
        rename_durably(temporary, self._folder / name)

    def create(self, name: str, content: bytes) -> bool:
        """As `Storage`; not synced to the disk."""
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            file = (self._folder / name).open("xb")
        except FileExistsError:
            return False
        with file:
            file.write(content)
        return True

    def move(self, name: str, target: str) -> None:
        """As `Storage`."""
        path = self._folder / target
        path.parent.mkdir(exist_ok=True)
        (self._folder / name).rename(path)
        sync(path.parent)
        sync(self._folder)

    def remove(self, name: str) -> None:
        """As `Storage`."""
        (self._folder / name).unlink(missing_ok=True)

    def clear(self) -> None:
        """As `Storage`."""
        for path in self._folder.glob(f"*{TEMPORARY}"):
            path.unlink(missing_ok=True)
