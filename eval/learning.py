"""The report's section on training: how acceptance grew with images, and whether more data would help.

Training leaves `learning.json` beside the bundle. A benchmark keeps a copy beside its results, one entry a
kind of heads, so that its report can be written again when the training run is gone.
"""

import json
from collections.abc import Mapping
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import Any

from backbones.durable import write_durably
from backbones.errors import RowcastError
from eval.learning_plot import learning_plot
from eval.page import section, table

LEARNING = "learning.json"
SCHEMA = 1


def keep_learning(bundles: Mapping[str, Path], folder: Path) -> None:
    """Copies what training left beside bundles, by kind of heads, to the benchmark's folder.

    Raises:
        RowcastError: if a file is not what training writes.
    """
    found = {kind: _read(path) for kind, bundle in bundles.items() if (path := _beside(bundle)).is_file()}
    folder.mkdir(parents=True, exist_ok=True)
    if found:
        write_durably(folder / LEARNING, json.dumps(found, indent=1) + "\n")
    else:
        (folder / LEARNING).unlink(missing_ok=True)


def learning_section(folder: Path) -> str | None:
    """The section; none if no bundle came with its training."""
    path = folder / LEARNING
    if not path.is_file():
        return None
    parts = []
    for kind, learning in json.loads(path.read_text()).items():
        parts += [
            f"<h3>{escape(kind)} heads</h3>",
            f"<p>{escape(learning['conclusion'])}</p>",
            learning_plot(learning),
            _table(learning),
        ]
    note = (
        "Acceptance of first drafts after true tokens, on images that were never trained on and on some of "
        "the rollouts, whose line is corrected for how easy they were to untrained heads. The band is a "
        "fitted saturating power law with its 95 % interval; training on for as many images again gains at "
        "most what it says, since the learning rate has come to its end. The gap between the lines is twice "
        "what unlimited rollouts would bring and four times what twice as many would, if it falls as one "
        "over their number."
    )
    return section("Training: was it enough data?", note, *parts)


def _table(learning: Mapping[str, Any]) -> str:
    rows = [
        [
            f"{entry['step']:,}",
            f"{entry['images']:,.0f}",
            f"{entry['epochs']:.2f}",
            f"{_mean(entry['held_out']):.3f}",
            f"{_mean(entry['seen']):.3f}" if entry["seen"] else "-",
            f"{gap:+.3f}" if gap is not None else "-",
        ]
        for entry, gap in zip_longest(learning["validations"], learning["fair_gaps"])
    ]
    heading = ["step", "images trained on", "epochs", "held-out images", "rollouts", "gap, corrected"]
    return table(heading, rows)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _beside(bundle: Path) -> Path:
    return bundle.parent / LEARNING


def _read(path: Path) -> dict[str, Any]:
    try:
        learning = json.loads(path.read_bytes())
        if not isinstance(learning, dict) or learning.get("schema") != SCHEMA:
            raise ValueError(f"{learning!r:.40}")
    except (ValueError, RecursionError) as error:
        raise RowcastError(
            f"expected what training writes in {path}, found {error}: remove the file, or train again"
        ) from None
    return learning
