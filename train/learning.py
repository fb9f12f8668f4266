"""Was it enough data? What a run's validations say of more rollouts and of more steps: `learning.json`.

The file is beside the bundle; a report shows it (`eval/learning.py`), and the run's last line sums it up.
"""

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from backbones.durable import write_durably
from train.forecast import LEAST_IMAGES, LEAST_POINTS, Curve, Estimate, Judged, data_gain, fair_gap, fit_curve
from train.loggers import FILE, read_metrics

LEARNING = "learning.json"
SCHEMA = 1
HELD_OUT, SEEN = "held_out", "seen"
IMAGES, EPOCHS = "images_trained_on", "epochs"
IMAGE_ROWS = "images/"
"""What the names of single images' figures begin with."""
WORTH = 0.01
"""Acceptance that is worth as much again of data or of steps."""


@dataclass(frozen=True, kw_only=True)
class Validation:
    """One validation; acceptance is the mean over heads, teacher-forced on whole images."""

    step: int
    images: float
    """Trained on until then, repeats among them."""
    epochs: float
    held_out: list[float]
    """Acceptance on each held-out image."""
    seen: list[float]
    """On some of the rollouts; none where they were made while training went on."""


@dataclass(frozen=True, kw_only=True)
class Learning:
    """How a run's heads got better, and what would make them better still."""

    schema: int
    rollouts: int
    validations: list[Validation]
    curve: Curve | None
    """None if there were too few validations."""
    fair_gaps: list[float]
    """Of the validations in turn; acceptance on images trained on less that on held-out ones, the ease of the
    images taken out. Empty if that cannot be done."""
    gap: Estimate | None
    """The last of them with its interval; None before the first epoch is over."""
    more_rollouts: Estimate | None
    """Gain from twice the rollouts."""
    conclusion: str


def image_row(name: str, image: int) -> str:
    """The name of one image's acceptance in the metrics file."""
    return f"{IMAGE_ROWS}{name}/accepted/{image}"


def conclude(folder: Path, rollouts: int) -> Learning:
    """Reads a run's metrics, writes `learning.json` beside them.

    Raises:
        RowcastError: if the metrics are damaged.
        OSError: if the disk refuses.
    """
    learning = learn(_validations(folder / FILE), rollouts)
    write_durably(folder / LEARNING, json.dumps(asdict(learning), indent=1) + "\n")
    return learning


def learn(validations: list[Validation], rollouts: int) -> Learning:
    """What the validations of a run say; the first one is of untrained heads."""
    trained = [entry for entry in validations if entry.images > 0]
    curve = gap = gain = None
    if trained:
        accepted = np.array([entry.held_out for entry in trained])
        curve = fit_curve(np.array([entry.images for entry in trained]), accepted)
    pairs = _pairs(validations)
    if pairs and trained and trained[-1].epochs >= 1:
        gap, gain = data_gain(*pairs[-1]) or (None, None)
    return Learning(
        schema=SCHEMA,
        rollouts=rollouts,
        validations=validations,
        curve=curve,
        fair_gaps=[fair_gap(*pair) for pair in pairs],
        gap=gap,
        more_rollouts=gain,
        conclusion=_conclusion(trained, curve, gain),
    )


def _pairs(validations: list[Validation]) -> list[tuple[Judged, Judged]]:
    """Held-out images and rollouts at every validation; none where the heads were never judged untrained."""
    first = validations[0] if validations else None
    if first is None or first.images or not first.seen:
        return []
    before = [np.array(first.held_out), np.array(first.seen)]
    return [
        (
            Judged(now=np.array(entry.held_out), untrained=before[0]),
            Judged(now=np.array(entry.seen), untrained=before[1]),
        )
        for entry in validations
    ]


def _conclusion(trained: list[Validation], curve: Curve | None, gain: Estimate | None) -> str:
    if not trained:
        return "enough data? cannot tell: no validation after the first step"
    last = trained[-1]
    if len(last.held_out) < LEAST_IMAGES:
        return f"enough data? cannot tell: trainer.validation_images must be at least {LEAST_IMAGES}"
    if gain:
        rollouts = f"twice the rollouts {_gain(gain)}"
    elif last.epochs < 1:
        rollouts = f"more rollouts nothing by themselves ({last.epochs:.2f} passes: no image came twice)"
    else:
        rollouts = "no forecast for more rollouts: no images were kept to compare with, as data.mode=ids does"
    steps = (
        f"twice the steps at most about {_gain(curve.gain)}"
        if curve
        else f"no forecast for more steps: validations {len(trained)} of at least {LEAST_POINTS}, lower "
        "trainer.validate_every"
    )
    return (
        f"enough data? accepted {np.mean(last.held_out):.3f} on held-out images; {rollouts}; {steps}"
        f"{_advice(curve.gain if curve else None, gain)}"
    )


def _gain(gain: Estimate) -> str:
    return f"{gain.value:+.3f} (95 %: {gain.low:+.3f} to {gain.high:+.3f})"


def _advice(steps: Estimate | None, rollouts: Estimate | None) -> str:
    """What to try, if the intervals say it."""
    forecast = {"rollouts.images": rollouts, "trainer.steps": steps}
    known = {name: gain for name, gain in forecast.items() if gain}
    sure = {name: gain for name, gain in known.items() if gain.low >= WORTH}
    if sure:
        return f"; raise {max(sure, key=lambda name: sure[name].value)}"
    if any(gain.high >= WORTH for gain in known.values()):
        return (
            f"; a gain counts from {WORTH:+.2f} on, which is too close to tell: raise "
            "trainer.validation_images for narrower intervals"
        )
    if len(known) == len(forecast):
        return f"; neither gains {WORTH:+.2f}: other or larger heads might"
    return "".join(f"; more {name} would not gain {WORTH:+.2f}" for name in known)


def _validations(path: Path) -> list[Validation]:
    """Every complete validation in a metrics file."""
    rows: dict[int, dict[str, float]] = defaultdict(dict)
    for step, name, value in read_metrics(path):
        rows[step][name] = value
    found = []
    for step, values in sorted(rows.items()):
        held_out, seen = _images(values, HELD_OUT), _images(values, SEEN)
        if held_out:
            entry = Validation(
                step=step, images=values[IMAGES], epochs=values[EPOCHS], held_out=held_out, seen=seen
            )
            found.append(entry)
    same = [entry for entry in found if len(entry.held_out) == len(found[-1].held_out)]
    return same  # trainer.validation_images may have changed on the way


def _images(values: dict[str, float], name: str) -> list[float]:
    """Acceptance of image 0, 1, ... as far as there are any."""
    found = []
    while (row := image_row(name, len(found))) in values:
        found.append(values[row])
    return found
