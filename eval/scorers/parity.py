"""What the official GenEval evaluator said of the same images: on how many of them the two agree."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from backbones.errors import RowcastError
from eval.scorers.pictures import Picture
from eval.scorers.results import prompt_interval
from eval.statistics import Interval

SHOWN = 3


def read_official(path: Path) -> dict[str, float]:
    """The verdicts in the official `results.jsonl`, by image (`00003/0001`): 1 for correct.

    Raises:
        RowcastError: if the file can't be read or a line is another one.
    """
    verdicts = {}
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            place = Path(record["filename"])
            verdicts[f"{place.parents[1].name}/{place.stem}"] = float(bool(record["correct"]))
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise RowcastError(
            f"expected results.jsonl of the official GenEval evaluator at {path}, found {error}: "
            "pass official=<its outfile>, or leave it out"
        ) from None
    return verdicts


def agreement(
    pictures: Sequence[Picture], ours: Sequence[float], official: Mapping[str, float]
) -> tuple[dict[str, Interval], list[str]]:
    """The share of images on which both agree and the official share of right ones, and a note.

    Args:
        pictures: the set.
        ours: our verdict on each.
        official: the official ones.

    Raises:
        RowcastError: if the official evaluator did not judge one of the pictures.
    """
    missing = [picture.key for picture in pictures if picture.key not in official]
    if missing:
        raise RowcastError(
            f"expected an official verdict on all images, found none on {len(missing)}, as {missing[0]}: "
            "run the official evaluator on the same folder, or leave official= out"
        )
    theirs = [official[picture.key] for picture in pictures]
    same = [float(our == their) for our, their in zip(ours, theirs, strict=True)]
    groups = [picture.group for picture in pictures]
    apart = [picture.key for picture, agreed in zip(pictures, same, strict=True) if not agreed]
    shown = f", such as {', '.join(apart[:SHOWN])}" if apart else ""
    return (
        {"agreement": prompt_interval(groups, same), "images, official": prompt_interval(groups, theirs)},
        [f"the official evaluator differs on {len(apart)} of {len(pictures)} images{shown}"],
    )
