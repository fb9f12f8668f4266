"""The log of a benchmark: one JSON line per painted image, appended and synced as it is made.

A log belongs to one contract (weights, heads, sampling, decoder options, seed, machine, code); its hash
is in the file's name, so results of two contracts never mix and changing an option never loses images.
Killed at any moment, a benchmark loses at most the line being written; the next start drops that line.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from backbones.errors import RowcastError

Role = Literal["main", "control", "profile"]
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
    painted once more with waits between the phases, whose times are true then."""
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
    """Judged positions by round."""
    changed: list[list[int]]
    """Raster positions whose token was changed, by round."""

    @property
    def key(self) -> Key:
        """What names the image within its log."""
        return self.decoder, self.prompt, self.sample, self.role


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """Mean negative log-likelihood per token (nats) of one logged image under the backbone."""

    guided: float
    conditional: float


class SampleLog:
    """The images of one contract in `folder`, read at start and extended by `add` and `score`.

    Raises:
        RowcastError: if the folder cannot be written or a complete line cannot be read.
    """

    def __init__(self, folder: Path, contract: Mapping[str, object]) -> None:
        self.contract = contract_hash(contract)
        self.path = folder / f"samples-{self.contract}.jsonl"
        self.images: dict[Key, Sample] = {}
        self.likelihoods: dict[Key, Likelihood] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+b")
        except OSError as error:
            raise unwritable(self.path, error) from None
        self._read()
        if self._file.tell() == 0:
            self._append([{"contract": contract}])

    @property
    def next_session(self) -> int:
        """The number of the session that starts now."""
        return 1 + max((image.session for image in self.images.values()), default=0)

    def add(self, images: Sequence[Sample]) -> None:
        """Appends images; they survive a kill once this returns."""
        self._append([{"image": asdict(image)} for image in images])
        self.images |= {image.key: image for image in images}

    def score(self, scores: Mapping[Key, Likelihood]) -> None:
        """Appends likelihoods of logged images."""
        self._append([{"key": list(key), "likelihood": asdict(value)} for key, value in scores.items()])
        self.likelihoods |= scores

    def close(self) -> None:
        """Closes the file; the log can still be read."""
        self._file.close()

    def _append(self, records: Sequence[Mapping[str, object]]) -> None:
        lines = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
        try:
            self._file.write(lines.encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise unwritable(self.path, error) from None

    def _read(self) -> None:
        self._file.seek(0)
        whole, _, half = self._file.read().rpartition(b"\n")
        if half:
            self._file.truncate(len(whole) + 1 if whole else 0)
        self._file.seek(0, os.SEEK_END)
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError):
                raise RowcastError(
                    f"expected a benchmark record in line {number} of {self.path}, found {line[:40]!r}: "
                    "delete that line or the file and run the same command again"
                ) from None

    def _take(self, record: dict[str, Any]) -> None:
        if "image" in record:
            image = Sample(**record["image"])
            self.images[image.key] = image
        elif "likelihood" in record:
            decoder, prompt, sample, role = record["key"]
            self.likelihoods[decoder, prompt, sample, role] = Likelihood(**record["likelihood"])
        else:
            record["contract"]


def contract_hash(contract: Mapping[str, object]) -> str:
    """Twelve hex digits that name a contract (canonical JSON, sha256)."""
    return hashlib.sha256(json.dumps(contract, sort_keys=True).encode()).hexdigest()[:12]


def unwritable(path: Path, error: OSError) -> RowcastError:
    """The error of a benchmark that cannot write."""
    return RowcastError(
        f"expected to write {path}, found: {error.strerror}: free space or set folder=..., "
        "then run the same command again (images already logged are kept)"
    )
