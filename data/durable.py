"""One sentence for a place of rollouts that cannot be read or written."""

from collections.abc import Iterator
from contextlib import contextmanager

from backbones.errors import RowcastError


@contextmanager
def disk_errors(place: object) -> Iterator[None]:
    """Turns a full, read-only or missing disk, or an object store that refuses, into one sentence.

    Raises:
        RowcastError: in place of any `OSError` inside the block.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, FileExistsError | NotADirectoryError):
            raise RowcastError(
                f"expected a folder at {place}, found a file there or above: set another rollouts.folder"
            ) from error
        raise RowcastError(
            f"expected to read and write {place}, found: {error.strerror or error}; complete shards are "
            "kept: free or permit the space and run the same command again, or set another rollouts.folder"
        ) from error
