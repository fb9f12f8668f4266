"""Where a backbone's weights come from and how they are held: the options of `model`."""

import glob
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import torch

from backbones.errors import RowcastError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
WEIGHTS = ("published", "random")
LONGEST = 200
"""Characters of what a user wrote that a message repeats."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """The options of `model`, names checked. What a family does not know stays none."""

    name: str
    path: str | None = None
    """Folder or hub id of the weights; none takes those that come along (pocket)."""
    revision: str | None = None
    """Hub revision (commit, tag or branch) of `path`."""
    weights: str = "published"
    """`random` builds the published configuration without any file, for timing and planning."""
    dtype: str = "float32"
    """Of the trunk; the VQ is always held in fp32."""
    size: str | None = None
    """Pixels of an image, width x height, as in 768x768; none takes the family's default."""
    tokenizer: str | None = None
    """Folder or hub id of the text tokenizer, where it does not lie beside the weights."""
    pixels: str | None = None
    """File, folder or hub id of the VQ weights, where they do not lie beside the trunk's."""
    text_encoder: str | None = None
    """Folder or hub id of the model that turns captions into features."""

    @property
    def torch_dtype(self) -> torch.dtype:
        return DTYPES[self.dtype]

    @property
    def is_random(self) -> bool:
        return self.weights == "random"

    @property
    def origin(self) -> str | None:
        """Where a hub has the weights that were fetched: `path@commit`.

        None for local files, for weights that come along and for random ones. No network is asked.
        """
        if self.path is None or self.is_random or on_disk(self.path, "model.path") is not None:
            return None
        organisation, _, rest = self.path.partition("/")
        repository, _, file = rest.partition("/")
        file = file or "config.json"
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(f"{organisation}/{repository}", file, revision=self.revision)
        if not isinstance(cached, str):
            return None
        commit = Path(cached).parents[file.count("/")].name
        return f"{self.path}@{commit}"

    def place(self, example: str) -> str:
        """`path`, of a model whose weights do not come along.

        Args:
            example: what the hub has, for the message.

        Raises:
            RowcastError: if it was not given.
        """
        if self.path is None:
            raise RowcastError(
                f"expected weights for {self.name}, found none: "
                f"pass model.path, here or on the hub, such as {example}"
            )
        return self.path

    def refuse(self, *names: str) -> None:
        """Refuses options that the family has no use for.

        Raises:
            RowcastError: if one of them is set.
        """
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name in names and value is not None:
                raise RowcastError(
                    f"expected no option model.{entry.name} for model {self.name}, found {value!r}: "
                    "leave it out"
                )


def fetch(place: str, revision: str | None, files: Sequence[str], option: str = "model.path") -> Path:
    """The local folder of a folder or hub id; of a hub repository only what matches `files` is downloaded.

    Args:
        place: an existing folder, or `organisation/repository`.
        revision: of the repository; none takes its main branch.
        files: file name patterns.
        option: where the user wrote `place`, for the message.

    Raises:
        RowcastError: if it is neither, or the hub can't be reached and nothing is cached.
    """
    path = on_disk(place, option)
    if path is not None:
        if not path.is_dir():
            raise RowcastError(f"expected a folder or a hub id, found the file {place}: check {option}")
        _refuse_revision(revision, place)
        return path
    return _download(place, revision, files, f"a folder or a hub id, found {place[:LONGEST]!r}", option)


def fetch_file(place: str, revision: str | None, option: str) -> Path:
    """The local copy of one file: of an existing one, or of `organisation/repository/file` on the hub.

    Args:
        place: the file, or where the hub has it.
        revision: of the repository; none takes its main branch.
        option: where the user wrote `place`, for the message.

    Raises:
        RowcastError: if it is neither, or the hub can't be reached and nothing is cached.
    """
    path = on_disk(place, option)
    if path is not None and path.is_file():
        _refuse_revision(revision, place)
        return path
    wanted = f"a file, or organisation/repository/file on the hub, found {place[:LONGEST]!r}"
    organisation, _, rest = place.partition("/")
    repository, _, file = rest.partition("/")
    if path is not None or Path(place).is_absolute() or not file or ".." in Path(file).parts:
        raise RowcastError(f"expected {wanted}: check {option}")
    # Not hf_hub_download, which without a network tries again for half a minute.
    name = f"{organisation}/{repository}"
    held = _download(name, revision, [glob.escape(file)], wanted, option) / file
    if not held.is_file():
        raise RowcastError(f"expected {wanted}, which is not in that repository: check {option}")
    return held


def on_disk(place: str, option: str) -> Path | None:
    """The file or folder of this machine that `place` is; none where there is no such thing.

    Args:
        place: a path, perhaps in the home folder (`~`), or a hub id.
        option: where the user wrote it, for the message.

    Raises:
        RowcastError: if the system cannot tell: a name too long, a folder that may not be entered.
    """
    try:
        path = Path(place).expanduser()
        return path if place and path.exists() else None
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise RowcastError(
            f"expected a place that can be read, found {place[:LONGEST]!r} ({reason}): check {option}"
        ) from error


def _download(place: str, revision: str | None, files: Sequence[str], wanted: str, option: str) -> Path:
    """The cached snapshot of a hub repository; `wanted` begins the messages."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(place, revision=revision, allow_patterns=list(files)))
    except HFValidationError as error:  # its text is advice for programmers
        raise RowcastError(f"expected {wanted}, which is neither: check {option}") from error
    except (OSError, ValueError, HfHubHTTPError) as error:
        raise RowcastError(
            f"expected {wanted} ({first_line(error)}): "
            f"check {option}; the hub also needs a network and no HF_HUB_OFFLINE"
        ) from error


def _refuse_revision(revision: str | None, place: str) -> None:
    if revision is not None:
        raise RowcastError(
            f"expected no model.revision beside the local {place}, found {revision!r}: "
            "leave it out, or pass a hub id"
        )


def require_files(folder: Path, *names: str, option: str = "model.path") -> None:
    """Every name or pattern has a file in `folder`.

    Raises:
        RowcastError: naming those that are missing.
    """
    missing = [name for name in names if not any(folder.glob(name))]
    if missing:
        raise RowcastError(
            f"expected {', '.join(missing)} in {folder}, found no such file: "
            f"point {option} at a folder in the published layout, or fetch it again"
        )


def first_line(error: BaseException) -> str:
    """What an exception of a library says, in one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
