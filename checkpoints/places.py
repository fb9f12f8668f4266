"""Names on a model hub: `organisation/name`, with `@revision` where one is meant.

Without torch and without the hub's library, so that a mistake is answered at once.
"""

import re
from dataclasses import dataclass

from backbones.errors import RowcastError

LONGEST = 96
"""Characters of a repository's name, as hubs have it."""
FORM = "organisation/name[@revision]"
_WORD = re.compile(r"[A-Za-z0-9_](?:[\w.-]*\w)?", re.ASCII)


@dataclass(frozen=True)
class HubPlace:
    """A repository on a hub, a branch, tag or commit of it, and a file where one of its files is meant."""

    repository: str
    revision: str | None = None
    file: str | None = None

    @property
    def path(self) -> str:
        """Without the revision."""
        return self.repository if self.file is None else f"{self.repository}/{self.file}"

    def __str__(self) -> str:
        return self.path if self.revision is None else f"{self.path}@{self.revision}"


def hub_place(text: str, with_file: bool = False) -> HubPlace | None:
    """`text` as a place on a hub; none if it is no such name.

    Names that would leave a cache folder (`..`), or that it writes otherwise (`--`), are none.

    Args:
        text: `organisation/name`, perhaps with `@revision`.
        with_file: whether a file may follow the name.
    """
    path, marked, revision = text.partition("@")
    words = path.split("/")
    if len(words) < 2 or (len(words) > 2 and not with_file) or not all(map(_is_word, words)):
        return None
    if marked and not all(map(_is_word, revision.split("/"))):
        return None
    repository, file = "/".join(words[:2]), "/".join(words[2:])
    return HubPlace(repository, revision or None, file or None) if len(repository) <= LONGEST else None


def require_repository(text: str, option: str) -> str:
    """The name of a repository, without a revision.

    Raises:
        RowcastError: for anything else.
    """
    place = hub_place(text)
    if place is None or place.revision is not None:
        raise RowcastError(
            f"expected organisation/name for {option}, found {text!r}: "
            f"letters, digits, '-', '_' and '.' alone, as in {option}=me/pocket-heads"
        )
    return place.repository


def require_revision(text: str, option: str) -> str:
    """The name of a branch, a tag or a commit.

    Raises:
        RowcastError: for anything else.
    """
    if not all(map(_is_word, text.split("/"))):
        raise RowcastError(
            f"expected the name of a branch for {option}, found {text!r}: "
            f"letters, digits, '-', '_', '.' and '/' alone, as in {option}=v1"
        )
    return text


def _is_word(text: str) -> bool:
    return _WORD.fullmatch(text) is not None and ".." not in text and "--" not in text
