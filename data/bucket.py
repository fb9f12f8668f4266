"""Rollouts behind a URL, through fsspec. An object store puts an object whole or not at all."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import fsspec
from fsspec.core import url_to_fs

from backbones.errors import RowcastError


def open_bucket(url: str) -> "Bucket":
    """The storage behind a URL.

    Raises:
        RowcastError: if fsspec does not know the protocol, or the package for it is not installed.
    """
    try:
        # Listings are never taken from a cache: other machines write here too.
        system, path = url_to_fs(url, use_listings_cache=False)
    except (ValueError, ImportError) as error:
        raise RowcastError(
            f"expected rollouts.folder to be a folder or a URL that fsspec can open, found {url} ({error}): "
            "install the package that it names, or set another rollouts.folder"
        ) from None
    return Bucket(url, system, path)


class Bucket:
    """Objects below one URL; methods as in `Storage`."""

    def __init__(self, url: str, system: fsspec.AbstractFileSystem, path: str) -> None:
        self.place = url.rstrip("/")
        self._system: Any = system
        self._root = path.rstrip("/")

    def sizes(self) -> dict[str, int]:
        """As `Storage`."""
        with _as_os_errors(), suppress(FileNotFoundError):
            # HTTP knows a folder by its last slash.
            found = self._system.ls(self._root + "/", detail=True)
            files = {str(one["name"]).rpartition("/")[2]: one for one in found if one["type"] == "file"}
            return {name: self._size(name, one["size"]) for name, one in files.items() if name}
        return {}

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """As `Storage`."""
        end = None if length is None else offset + length
        with _as_os_errors():
            content = self._system.cat_file(self._path(name), start=offset, end=end)
        if length is not None and len(content) > length:
            content = content[offset : offset + length]  # of a web server that sends whole files only
        return content

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """As `Storage`; many objects are asked for at a time."""
        if not names:
            return {}
        paths = {self._path(name): name for name in names}
        contents: dict[str, bytes] = {}
        with _as_os_errors():
            for path, content in self._system.cat(list(paths), on_error="return").items():
                if isinstance(content, FileNotFoundError):
                    continue
                if isinstance(content, Exception):
                    raise content
                contents[paths[path]] = content
        return contents

    def write(self, name: str, content: bytes) -> None:
        """As `Storage`."""
        with _as_os_errors():
            self._system.pipe_file(self._path(name), content)

    def create(self, name: str, content: bytes) -> bool:
        """As `Storage`."""
        with _as_os_errors():
            try:
                self._system.pipe_file(self._path(name), content, mode="create")
            except FileExistsError:
                return False
        return True

    def move(self, name: str, target: str) -> None:
        """As `Storage`."""
        with _as_os_errors():
            self._system.mv(self._path(name), self._path(target))

    def remove(self, name: str) -> None:
        """As `Storage`."""
        with _as_os_errors(), suppress(FileNotFoundError):
            self._system.rm_file(self._path(name))

    def clear(self) -> None:
        """As `Storage`: an object that was not put to its end does not exist."""

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _size(self, name: str, listed: int | None) -> int:
        return listed if listed is not None else self._system.info(self._path(name))["size"]


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """The OSError that callers know, in place of each service's own exceptions."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
