"""What a scorer found about a folder of images: one JSON file a protocol, and the columns for a report."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from backbones.durable import write_durably
from backbones.errors import RowcastError
from eval.statistics import DRAWS, Interval, by_prompt, mean_interval

SCHEMA = 1
PREFIX = "scores-"


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The result of one protocol on one folder."""

    protocol: str
    command: str
    folder: str
    """Of the images."""
    contract: Mapping[str, Any]
    """Models and options."""
    values: Mapping[str, Interval]
    """By name; the first is the headline."""
    by_image: Mapping[str, float]
    """The score of every image by its key; empty where the protocol judges whole sets."""
    notes: Sequence[str] = ()
    """What a reader has to know before comparing: subsets, options that are not the protocol's own."""

    @property
    def path_name(self) -> str:
        return f"{PREFIX}{self.protocol.replace('/', '-')}.json"

    def text(self) -> str:
        """For a terminal: a line a value, then the notes."""
        width = max(map(len, self.values))
        lines = [self.protocol]
        for name, found in self.values.items():
            edges = "" if found.low is None else f"  ({found.low:.4g} to {found.high:.4g})"
            lines.append(f"  {name:<{width}}  {found.value:.4g}{edges}  n={found.n}")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def write_scores(scores: Scores, folder: Path) -> Path:
    """Writes `scores-<protocol>.json`, all or nothing; its path.

    Raises:
        RowcastError: if it can't be written.
    """
    path = folder / scores.path_name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"schema": SCHEMA, **asdict(scores)}, indent=1, allow_nan=False, ensure_ascii=False)
        write_durably(path, text + "\n")
    except OSError as error:
        raise RowcastError(
            f"expected to write {path}, found: {error.strerror}: free space or set out=..., "
            "then run the same command again"
        ) from None
    return path


def image_columns(folder: Path) -> dict[str, dict[str, float]]:
    """For a report: the scores of every image of a folder that was scored, by image key, then by protocol.

    The key is the one the layout gives: `00003/0001` (prompt, sample) in GenEval's, `<prompt id>/<tile>` in
    DPG-Bench's, the file's name in a plain folder.

    Args:
        folder: that `python -m eval.scorers` wrote to (`out`).

    Raises:
        RowcastError: if there is no result, or one that can't be read.
    """
    columns: dict[str, dict[str, float]] = {}
    paths = sorted(folder.glob(f"{PREFIX}*.json"))
    if not paths:
        raise RowcastError(
            f"expected {PREFIX}<protocol>.json in {folder}, found none: run python -m eval.scorers first"
        )
    for path in paths:
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            if record["schema"] != SCHEMA:
                raise ValueError
            for key, value in record["by_image"].items():
                columns.setdefault(key, {})[record["protocol"]] = float(value)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise RowcastError(
                f"expected the scores of schema {SCHEMA} in {path}, found another file: "
                "run python -m eval.scorers again"
            ) from None
    return columns


def balanced_interval(strata: Mapping[str, Sequence[float]], seed: int = 0) -> Interval:
    """The unweighted mean of the strata's means, with its 95 % interval by a bootstrap within strata.

    Args:
        strata: values of the prompts of each.
        seed: the same values always give the same interval.
    """
    groups = [np.asarray(values, np.float64) for values in strata.values()]
    value, n = float(np.mean([group.mean() for group in groups])), sum(map(len, groups))
    if n < 2:
        return Interval(value=value, low=None, high=None, n=n)
    rng = np.random.default_rng(seed)
    drawn = [group[rng.integers(len(group), size=(DRAWS, len(group)))].mean(1) for group in groups]
    low, high = np.quantile(np.mean(drawn, axis=0), [0.025, 0.975])
    return Interval(value=value, low=float(low), high=float(high), n=n)


def prompt_interval(groups: Sequence[str], values: Sequence[float]) -> Interval:
    """The mean over images, as evaluators take it, with an interval over prompts, whose images stay together.

    Args:
        groups: the prompt of each image.
        values: its score.
    """
    over_prompts = mean_interval(list(by_prompt(zip(groups, values, strict=True)).values()))
    return replace(over_prompts, value=float(np.mean(values)))
