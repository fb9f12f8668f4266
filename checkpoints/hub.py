"""Heads by name: a place on a model hub wherever a bundle's folder may stand.

Only a bundle's own files are downloaded, into the cache of the hub's library; what is there needs no network
(`HF_HUB_OFFLINE=1`). Sizes are compared with what the config promises before the weights are fetched.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backbones.errors import RowcastError
from backbones.source import on_disk
from checkpoints.card import CARD_FILE, SAMPLES_FILE
from checkpoints.config import CONFIG_FILE, read_config
from checkpoints.config import LARGEST as LARGEST_CONFIG
from checkpoints.custom import CODE_FILE
from checkpoints.custom import LARGEST as LARGEST_CODE
from checkpoints.measured import LARGEST as LARGEST_RESULTS
from checkpoints.measured import RESULTS_FILE
from checkpoints.places import FORM, HubPlace, hub_place
from checkpoints.token import VARIABLE, without_token
from checkpoints.weights import WEIGHTS_FILE, size_on_disk

LIMITS = {
    CONFIG_FILE: LARGEST_CONFIG,
    CARD_FILE: 4 << 20,
    RESULTS_FILE: LARGEST_RESULTS,
    SAMPLES_FILE: 16 << 20,
    CODE_FILE: LARGEST_CODE,
}
"""The small files of a bundle and the most bytes that they may have."""
FILES = (*LIMITS, WEIGHTS_FILE)
"""All files of a bundle."""
LARGEST_HEADER = 1 << 20
"""Bytes that a weights file may have beside its weights; ours have a few thousand."""
SECONDS = 20
"""Patience with a question to the hub."""


def resolve(place: str | Path, weights: bool = True) -> Path:
    """The folder of a bundle, which is downloaded if `place` is a name on the hub.

    Args:
        place: a folder, be it there or not, or `organisation/name[@revision]`. A folder comes first.
        weights: whether the weights are wanted too.

    Raises:
        RowcastError: if the hub has no such bundle, or can't be reached and nothing is cached.
    """
    found = on_hub(place)
    return Path(place).expanduser() if found is None else _download(found, weights)


def on_hub(place: str | Path) -> HubPlace | None:
    """What `place` names on the hub; none for a folder.

    Raises:
        RowcastError: for a name with a revision that no hub could have, or a path that can't be read.
    """
    text = str(place)
    if on_disk(text, "the path of the heads") is not None:
        return None
    found = hub_place(text)
    if found is None and "@" in text:
        raise RowcastError(f"expected a bundle folder or {FORM}, found {text!r}: check the path or the name")
    return found


@contextmanager
def hub_errors(expected: str, advice: str) -> Iterator[None]:
    """Turns what the hub, its library or the network object to into one line without a token."""
    from huggingface_hub.errors import EntryNotFoundError, HTTPError

    try:
        yield
    except (OSError, ValueError, RuntimeError, HTTPError, EntryNotFoundError) as error:
        found = re.sub(
            r"\(Request ID:[^)]*\)|For more information check: \S+", "", str(error) or type(error).__name__
        )
        found = without_token(" ".join(found.split()).rstrip("."))[:300]
        raise RowcastError(f"expected {expected}, found: {found}; {advice}") from error


def _download(place: HubPlace, weights: bool) -> Path:
    expected = f"a bundle in the folder {place}, which is not there, or on the hub by that name"
    advice = f"check the path or the name; the hub needs a network, and {VARIABLE} if the heads are private"
    with hub_errors(expected, advice):
        sizes = _sizes(place)
        for name, limit in LIMITS.items():
            _require_size(place, name, sizes.get(name), 0, limit)
        folder = _fetch(place, list(LIMITS))
        if not (folder / CONFIG_FILE).is_file():
            raise RowcastError(
                f"expected a head bundle at {place} on the hub, found no {CONFIG_FILE}; {advice}"
            )
        if not weights:
            return folder
        least = size_on_disk(folder / WEIGHTS_FILE, read_config(folder).heads)
        _require_size(place, WEIGHTS_FILE, sizes.get(WEIGHTS_FILE), least, least + LARGEST_HEADER)
        return _fetch(place, list(FILES))


def _fetch(place: HubPlace, files: list[str]) -> Path:
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(place.repository, revision=place.revision, allow_patterns=files))


def _sizes(place: HubPlace) -> dict[str, int | None]:
    """Bytes of the repository's files as the hub states them; empty where it can't be asked.

    The download that follows asks again, and says what is wrong if nothing is cached.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HTTPError

    try:
        info = HfApi().model_info(
            place.repository, revision=place.revision, files_metadata=True, timeout=SECONDS
        )
    except (OSError, HTTPError):
        return {}
    return {file.rfilename: file.size for file in info.siblings or []}


def _require_size(place: HubPlace, name: str, size: int | None, least: int, most: int) -> None:
    if size is not None and not least <= size <= most:
        raise RowcastError(
            f"expected {name} of {least:,} to {most:,} bytes at {place} on the hub, found {size:,}; "
            "it was not downloaded: tell whoever published it"
        )
