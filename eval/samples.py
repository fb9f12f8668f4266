"""The log of a benchmark: one JSON line per painted image, appended and synced as it is made.

A log belongs to one contract (weights, heads, sampling, decoder options, seed, machine, code); its hash
is in the file's name, so results of two contracts never mix and changing an option never loses images.
Killed at any moment, a benchmark loses at most the line being written; the next start drops that line.
Processes that share a benchmark write a file each, and read those of the others.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from backbones.errors import RowcastError

SCHEMA = 3
"""Of the lines; the first one names it."""
SHARDS = "shards"
"""Folder of the parts of a benchmark that several processes share."""

Role = Literal["main", "control", "profile", "reference"]
Key = tuple[str, str, int, Role]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One image that one decoder painted, and what it cost."""

    decoder: str
    prompt: str
    sample: int
    """Which image of this prompt."""
    role: Role
    """`control`: painted with the second seed, for the comparison of a decoder with itself; `profile`:
    painted once more with waits between the phases, whose times are true then; `reference`: by the
    generation loop of the model's own library."""
    session: int
    """Which start of the benchmark painted it; latencies of one session share the machine's mood."""
    latency: float | None
    """Seconds from prompt to tokens, painted alone; none for an image painted in a batch."""
    tokens: list[int]
    forwards: int
    seconds: dict[str, float]
    """Seconds by phase, as the decoder's trace has them; of the whole batch."""
    acceptance: dict[str, list[int]]
    """(accepted, examined) drafts of the first round by the head that made them."""
    examined: list[int]
    """Judged tokens by round."""
    changed: list[int]
    """Replaced tokens by round."""
    judged: dict[str, list[str]]
    """Masks of the examined and the accepted cells, by direction and round: `right/0` (`eval/masks.py`)."""
    order: list[int]
    """The forward after which each token was final."""
    set: str = "prompts"
    prompt_id: str = ""
    category: str = ""
    """Where the prompt comes from, and its stratum there."""

    @property
    def key(self) -> Key:
        """What names the image within its log."""
        return self.decoder, self.prompt, self.sample, self.role


Scores = dict[str, float]
"""Scores of an image by column (`eval/columns.py`)."""


class SampleLog:
    """The images of one contract in `folder`, read at start and extended by `add` and `score`.

    Args:
        folder: of the benchmark.
        contract: what the images depend on.
        part: the name of this process's part, where several share the benchmark.

    Raises:
        RowcastError: if the folder cannot be written or a complete line cannot be read.
    """

    def __init__(self, folder: Path, contract: Mapping[str, object], part: str | None = None) -> None:
        self.contract = contract_hash(contract)
        own = folder / SHARDS / part if part else folder
        self.path = own / f"samples-{self.contract}.jsonl"
        self.images: dict[Key, Sample] = {}
        self.scores: dict[Key, Scores] = {}
        try:
            own.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+b")
        except OSError as error:
            raise unwritable(self.path, error) from None
        self._drop_half_a_line()
        if self._file.tell() == 0:
            self._append([{"schema": SCHEMA, "contract": contract}])
        self._folder = folder
        self.refresh()

    @property
    def next_session(self) -> int:
        """The number of the session that starts now."""
        return 1 + max((image.session for image in self.images.values()), default=0)

    def refresh(self) -> None:
        """Reads what all processes have logged so far."""
        for path in log_files(self._folder, self.contract):
            read_into(path, self.images, self.scores)

    def add(self, images: Sequence[Sample]) -> None:
        """Appends images; they survive a kill once this returns."""
        self._append([{"image": asdict(image)} for image in images])
        self.images |= {image.key: image for image in images}

    def score(self, scores: Mapping[Key, Scores]) -> None:
        """Appends scores of logged images, to those that they have."""
        self._append([{"key": list(key), "scores": value} for key, value in scores.items()])
        for key, value in scores.items():
            self.scores[key] = self.scores.get(key, {}) | value

    def close(self) -> None:
        """Closes the file; the log can still be read."""
        self._file.close()

    def _append(self, records: Sequence[Mapping[str, object]]) -> None:
        if not records:
            return
        lines = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
        try:
            self._file.write(lines.encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise unwritable(self.path, error) from None

    def _drop_half_a_line(self) -> None:
        self._file.seek(0)
        whole, _, half = self._file.read().rpartition(b"\n")
        if half:
            self._file.truncate(len(whole) + 1 if whole else 0)
        self._file.seek(0, os.SEEK_END)


def log_files(folder: Path, contract: str) -> list[Path]:
    """The files of a benchmark's log: its own, and those of the processes that shared it."""
    name = f"samples-{contract}.jsonl"
    return [path for path in (folder / name, *sorted(folder.glob(f"{SHARDS}/*/{name}"))) if path.is_file()]


def read_into(path: Path, images: dict[Key, Sample], scores: dict[Key, Scores]) -> None:
    """Adds a log's images and scores; a line that is being written is left out, a timed image stays.

    Raises:
        RowcastError: if the file or a complete line cannot be read.
    """
    for number, line in _lines(path):
        try:
            _take(json.loads(line), images, scores)
        except (ValueError, KeyError, TypeError):
            raise RowcastError(
                f"expected a benchmark record of schema {SCHEMA} in line {number} of {path}, found "
                f"{line[:40]!r}: delete that line or the file and run the same command again"
            ) from None


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield number, line.rstrip(b"\n")
    except OSError as error:
        raise RowcastError(
            f"expected the log of a benchmark at {path}, found: {error.strerror}; measure again with "
            "python -m eval"
        ) from None


def _take(record: dict[str, Any], images: dict[Key, Sample], scores: dict[Key, Scores]) -> None:
    if "image" in record:
        image = Sample(**record["image"])
        known = images.get(image.key)
        if known is None or known.latency is None or image.latency is not None:
            images[image.key] = image
    elif "scores" in record:
        decoder, prompt, sample, role = record["key"]
        key: Key = decoder, prompt, sample, role
        scores[key] = scores.get(key, {}) | record["scores"]
    elif record["schema"] != SCHEMA:
        raise ValueError(record["schema"])


def contract_hash(contract: Mapping[str, object]) -> str:
    """Twelve hex digits that name a contract (canonical JSON, sha256)."""
    return hashlib.sha256(json.dumps(contract, sort_keys=True).encode()).hexdigest()[:12]


def unwritable(path: Path, error: OSError) -> RowcastError:
    """The error of a benchmark that cannot write."""
    return RowcastError(
        f"expected to write {path}, found: {error.strerror}: free space or set folder=..., "
        "then run the same command again (images already logged are kept)"
    )
