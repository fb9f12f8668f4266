"""The log of a scorer: one JSON line an image, appended and synced, so that a killed run loses one batch.

A line belongs to the content of its picture and to the scorer's contract (models, options), whose hash is in
the file's name: a picture that was painted anew, or other options, are scored anew.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from backbones.errors import RowcastError
from eval.samples import contract_hash
from eval.scorers.pictures import Picture
from eval.scorers.scorer import ImageScore, Scorer


def score_pictures(scorer: Scorer, pictures: Sequence[Picture], folder: Path, batch: int) -> list[ImageScore]:
    """The scores of all pictures, in their order; those that `folder` knows already are not judged again.

    Args:
        scorer: judges what is missing.
        pictures: of one set.
        folder: of the log.
        batch: pictures judged together.

    Raises:
        RowcastError: if a picture can't be read, or the log can't be read or written.
    """
    log = ScoreLog(folder, scorer.protocol, scorer.contract)
    prints = [picture.fingerprint() for picture in pictures]
    todo = {
        print_: picture for print_, picture in zip(prints, pictures, strict=True) if print_ not in log.scores
    }
    with tqdm(
        total=len(pictures),
        initial=len(pictures) - len(todo),
        desc=scorer.protocol,
        unit="image",
        dynamic_ncols=True,
        disable=not todo,
    ) as bar:
        left = list(todo.items())
        for start in range(0, len(left), batch):
            part = left[start : start + batch]
            judged = scorer.score([picture for _, picture in part])
            log.add(
                [(print_, picture.key, score) for (print_, picture), score in zip(part, judged, strict=True)]
            )
            bar.update(len(part))
    log.close()
    return [log.scores[print_] for print_ in prints]


RULES = 1
"""Of all protocols; raise it where a change of the code changes a score."""


class ScoreLog:
    """The scored images of one contract."""

    def __init__(self, folder: Path, protocol: str, contract: Mapping[str, Any]) -> None:
        """Reads what is there.

        Raises:
            RowcastError: if the folder can't be written or a whole line can't be read.
        """
        whole = {"protocol": protocol, "rules": RULES, **contract}
        self.path = folder / f"{protocol.replace('/', '-')}-{contract_hash(whole)}.jsonl"
        self.scores: dict[str, ImageScore] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+b")
        except OSError as error:
            raise self._unwritable(error) from None
        self._read()
        if self._file.tell() == 0:
            self._append([{"contract": whole}])

    def add(self, scores: Sequence[tuple[str, str, ImageScore]]) -> None:
        """Appends (fingerprint, key, score) of some images; they survive a kill once this returns."""
        self._append(
            [
                {"picture": name, "key": key, "scores": score.scores, "detail": score.detail}
                for name, key, score in scores
            ]
        )
        self.scores |= {name: score for name, _, score in scores}

    def close(self) -> None:
        """Closes the file; the scores can still be read."""
        self._file.close()

    def _append(self, records: Sequence[Mapping[str, Any]]) -> None:
        lines = "".join(
            json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n" for record in records
        )
        try:
            self._file.write(lines.encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._unwritable(error) from None

    def _read(self) -> None:
        self._file.seek(0)
        whole, _, half = self._file.read().rpartition(b"\n")
        if half:
            self._file.truncate(len(whole) + 1 if whole else 0)
        self._file.seek(0, os.SEEK_END)
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                record = json.loads(line)
                if number == 1:
                    record["contract"]
                else:
                    score = ImageScore(scores=record["scores"], detail=record["detail"])
                    self.scores[record["picture"]] = score
            except (ValueError, KeyError, TypeError):
                raise RowcastError(
                    f"expected the score of an image in line {number} of {self.path}, found {line[:40]!r}: "
                    "delete that line or the file and run the same command again"
                ) from None

    def _unwritable(self, error: OSError) -> RowcastError:
        return RowcastError(
            f"expected to write {self.path}, found: {error.strerror}: free space or set out=..., "
            "then run the same command again (images already scored are kept)"
        )
