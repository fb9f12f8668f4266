"""Fetches a prompt set's file once: from a pinned address, checked by its sha256 before anyone reads it."""

import hashlib
import http.client
import urllib.error
import urllib.request
from pathlib import Path

from backbones.durable import write_durably
from backbones.errors import RowcastError
from eval.prompt_sets.manifest import PromptSet, Published

LARGEST = 64 << 20
"""Bytes of a file."""
TIMEOUT = 30
"""Seconds without an answer."""


def find(entry: PromptSet, path: str | None, folder: Path, *, fetch: bool) -> Path:
    """The file of a prompt set.

    Args:
        entry: the set.
        path: the user's own copy; none takes ours, or a fetched one.
        folder: where fetched files are kept.
        fetch: whether the network may be asked.

    Raises:
        RowcastError: if there is no file, or not the one that was published.
    """
    if path is not None:
        return Path(path).expanduser()
    if entry.shipped is not None:
        return entry.shipped
    option = f"sets.{entry.name}.path"
    if entry.published is None:
        raise RowcastError(
            f"expected {option}=<{entry.file}>, found none: get the file from {entry.page}; its checksum is "
            "not known here, so it is not fetched for you"
        )
    kept = folder / f"{entry.published.sha256[:12]}-{entry.file}"
    if not kept.is_file():
        if not fetch:
            raise RowcastError(
                f"expected the prompts of {entry.name} in {kept}, found no such file: set sets.fetch=true to "
                f"download it, or {option}=<{entry.file}> for your own copy"
            )
        _store(download(entry.published, option), kept)
    found = hashlib.sha256(kept.read_bytes()).hexdigest()
    if found != entry.published.sha256:
        raise RowcastError(
            f"expected sha256 {entry.published.sha256[:16]} of {kept}, found {found[:16]}: "
            "delete the file and run the same command again"
        )
    return kept


def download(published: Published, option: str) -> bytes:
    """The bytes at an address, if they are those that were published.

    Raises:
        RowcastError: if there is no answer, too long a one, or other bytes than expected.
    """
    try:
        with urllib.request.urlopen(published.address, timeout=TIMEOUT) as answer:
            content = answer.read(LARGEST + 1)
    except (OSError, http.client.HTTPException, urllib.error.URLError) as error:
        reason = getattr(error, "reason", None) or error
        raise RowcastError(
            f"expected a file at {published.address}, found: {reason}; run the same command again, or set "
            f"{option} to your own copy"
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if len(content) > LARGEST or found != published.sha256:
        raise RowcastError(
            f"expected sha256 {published.sha256[:16]} at {published.address}, found {found[:16]} in "
            f"{len(content):,} bytes: nothing was kept; set {option} to a copy that you trust"
        )
    return content


def _store(content: bytes, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, content)
    except OSError as error:
        raise RowcastError(
            f"expected to write {path}, found: {error.strerror}; set sets.folder=..."
        ) from None
