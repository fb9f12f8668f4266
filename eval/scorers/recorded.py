"""Answers that the official DPG-Bench script wrote down: mPLUG's, from the user's own environment.

mPLUG as published is not in transformers. Its answers are enough: with them Rowcast computes the official
number and the one without the script's defects, under the name `dpg/mplug`.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from backbones.errors import RowcastError
from eval.scorers.dpg import Question

LINE = re.compile(r"(?P<path>.+?), \((?P<box>\d+, \d+, \d+, \d+)\), (?P<question>.+), (?P<answer>[^,]*)")


def read_answers(
    path: Path, questions: Mapping[str, Sequence[Question]]
) -> dict[str, list[dict[int, float]]]:
    """The answers in a `..._detail.txt` of the official script, by prompt, one entry an image.

    The question of the file's first row was never asked there: its prompt lacks that answer.

    Args:
        path: of the file.
        questions: by prompt.

    Raises:
        RowcastError: if the file can't be read or a line is of no known prompt or question.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", error)
        raise RowcastError(
            f"expected the answers of the official script in {path}, found: {found}: "
            "pass answers=<..._detail.txt>"
        ) from None
    answers: dict[str, dict[str, dict[int, float]]] = defaultdict(dict)
    for number, line in enumerate(lines, 1):
        match = LINE.fullmatch(line)
        item = Path(match["path"]).name.partition(".")[0] if match else ""
        ids = [
            question.id
            for question in questions.get(item, ())
            if match and question.text == match["question"].strip()
        ]
        if match is None or not ids:
            raise RowcastError(
                f"expected `picture, (tile), known question, answer` in line {number} of {path}, "
                f"found {line[:60]!r}: pass the file and the questions that belong together"
            )
        tile = answers[item].setdefault(match["box"], {})
        tile |= {name: float(match["answer"] == "yes") for name in ids}
    if not answers:
        raise RowcastError(f"expected answers in {path}, found none: run the official script first")
    return {item: list(tiles.values()) for item, tiles in answers.items()}
