"""Where a backbone's weights come from and how they are held: the options of `model`."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import torch

from backbones.errors import RowcastError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
WEIGHTS = ("published", "random")


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
        if self.path is None or self.is_random or Path(self.path).expanduser().exists():
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
            example: a hub id, for the message.

        Raises:
            RowcastError: if it was not given.
        """
        if self.path is None:
            raise RowcastError(
                f"expected weights for {self.name}, found none: "
                f"pass model.path with a folder or hub id such as {example}"
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
    folder = Path(place).expanduser()
    if place and folder.is_dir():
        _refuse_revision(revision, place)
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(place, revision=revision, allow_patterns=list(files)))
    except (OSError, ValueError, HfHubHTTPError, HFValidationError) as error:
        raise RowcastError(
            f"expected a folder or a hub id, found {place!r} ({first_line(error)}): "
            f"check {option}; the hub also needs a network and no HF_HUB_OFFLINE"
        ) from error


def fetch_file(place: str, revision: str | None, option: str) -> Path:
    """The local copy of one file: of an existing one, or of `organisation/repository/file` on the hub.

    Args:
        place: the file, or where the hub has it.
        revision: of the repository; none takes its main branch.
        option: where the user wrote `place`, for the message.

    Raises:
        RowcastError: if it is neither, or the hub can't be reached and nothing is cached.
    """
    path = Path(place).expanduser()
    if path.is_file():
        _refuse_revision(revision, place)
        return path
    organisation, _, rest = place.partition("/")
    repository, _, file = rest.partition("/")
    if path.exists() or path.is_absolute() or not file:
        raise RowcastError(
            f"expected a file, or organisation/repository/file on the hub, found {place!r}: check {option}"
        )
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError

    try:
        return Path(hf_hub_download(f"{organisation}/{repository}", file, revision=revision))
    except (OSError, ValueError, HfHubHTTPError, HFValidationError, EntryNotFoundError) as error:
        raise RowcastError(
            f"expected a file, or organisation/repository/file on the hub, found {place!r} "
            f"({first_line(error)}): check {option}; the hub also needs a network and no HF_HUB_OFFLINE"
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
