"""The rules of GenEval on plain detections (arXiv 2310.11513, the official evaluator): no model, no picture.

Two properties of the official evaluator that look like defects are part of its numbers, and are kept:
clauses are independent, so one object may satisfy two of them; and colour and position are judged on the
most confident objects alone, so that a right object of less confidence does not save a wrong one.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool

from backbones.errors import RowcastError

THRESHOLD = 0.3
COUNTING_THRESHOLD = 0.9
MAX_OBJECTS = 16
"""Most confident detections of a class that are looked at."""
MARGIN = 0.1
"""Share of the two boxes' extents by which an offset has to exceed zero."""
TAGS = {
    "single_object": 80,
    "two_object": 99,
    "counting": 80,
    "colors": 94,
    "position": 100,
    "color_attr": 100,
}
"""Prompts of the published set by tag."""
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white")
CLASSES = (
    "person bicycle car motorcycle airplane bus train truck boat traffic_light fire_hydrant stop_sign "
    "parking_meter bench bird cat dog horse sheep cow elephant bear zebra giraffe backpack umbrella handbag "
    "tie suitcase frisbee skis snowboard sports_ball kite baseball_bat baseball_glove skateboard surfboard "
    "tennis_racket bottle wine_glass cup fork knife spoon bowl banana apple sandwich orange broccoli carrot "
    "hot_dog pizza donut cake chair couch potted_plant bed dining_table toilet tv laptop computer_mouse "
    "tv_remote computer_keyboard cell_phone microwave oven toaster sink refrigerator book clock vase "
    "scissors teddy_bear hair_drier toothbrush"
)
CLASS_NAMES = tuple(name.replace("_", " ") for name in CLASSES.split())
"""In COCO's order. Three differ from COCO's own: computer mouse, tv remote, computer keyboard."""

Corners = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels."""


@dataclass(frozen=True, kw_only=True)
class Detection:
    """One object that a detector found."""

    name: str
    """One of `CLASS_NAMES`."""
    score: float
    box: Corners
    mask: Bool[np.ndarray, "H W"] | None = None


RELATIONS = ("left of", "right of", "above", "below")

ColourJudge = Callable[[str, Sequence[Detection]], list[str]]
"""From a class and its detections to the colour of each."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether an image shows what its prompt asks for, and what it lacks."""

    correct: bool
    reasons: list[str]


def objects_by_name(
    detections: Sequence[Detection], tag: str, max_overlap: float = 1.0
) -> dict[str, list[Detection]]:
    """The detections that count, by class, most confident first.

    Args:
        detections: of one image.
        tag: of the prompt; counting asks for more confidence.
        max_overlap: greedy suppression of boxes that overlap a more confident one by so much or more; 1
            (official) suppresses none.
    """
    threshold = COUNTING_THRESHOLD if tag == "counting" else THRESHOLD
    by_name: dict[str, list[Detection]] = defaultdict(list)
    for found in sorted(detections, key=lambda found: -found.score):
        if found.score > threshold and len(by_name[found.name]) < MAX_OBJECTS:
            by_name[found.name].append(found)
    return {name: _suppressed(found, max_overlap) for name, found in by_name.items() if found}


def _suppressed(found: list[Detection], max_overlap: float) -> list[Detection]:
    if max_overlap == 1:
        return found
    kept: list[Detection] = []
    for candidate in found:
        if all(overlap(other.box, candidate.box) < max_overlap for other in kept):
            kept.append(candidate)
    return kept


def overlap(a: Corners, b: Corners) -> float:
    """Intersection over union of two boxes whose corner pixels are both inside (the +1 convention)."""
    common = _area((max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])))
    union = _area(a) + _area(b) - common
    return common / union if union else 0.0


def _area(box: Corners) -> float:
    return max(box[2] - box[0] + 1, 0.0) * max(box[3] - box[1] + 1, 0.0)


def relations(box: Corners, target: Corners) -> set[str]:
    """Where `box` is, seen from `target`: none, one or two of left of, right of, above, below.

    The offset of the centres is shrunk on each axis by a tenth of both extents, then divided by the length
    of the offset as it was; more than half on an axis is a relation.
    """
    a, b = (np.asarray(corners, np.float64).reshape(2, 2) for corners in (box, target))
    offset = a.mean(0) - b.mean(0)
    extents = np.abs(a[1] - a[0]) + np.abs(b[1] - b[0])
    shrunk = np.maximum(np.abs(offset) - MARGIN * extents, 0) * np.sign(offset)
    if np.all(np.abs(shrunk) < 1e-3):
        return set()
    x, y = shrunk / np.linalg.norm(offset)
    held = (x < -0.5, x > 0.5, y < -0.5, y > 0.5)
    return {name for name, holds in zip(RELATIONS, held, strict=True) if holds}


def require_metadata(metadata: Mapping[str, Any], where: str) -> None:
    """Refuses a prompt's line that can't be judged.

    Raises:
        RowcastError: for an unknown tag, class, colour or relation, or a count that is none.
    """
    clauses = [*metadata.get("include", []), *metadata.get("exclude", [])]
    wrong = [] if metadata.get("tag") in TAGS else [f"tag {metadata.get('tag')!r}"]
    for number, clause in enumerate(clauses):
        if clause.get("class") not in CLASS_NAMES:
            wrong.append(f"class {clause.get('class')!r}")
        if type(clause.get("count")) is not int or clause["count"] < 1:
            wrong.append(f"count {clause.get('count')!r}")
        if clause.get("color", COLOURS[0]) not in COLOURS:
            wrong.append(f"color {clause['color']!r}")
        if "position" in clause and not _is_place(clause["position"], number):
            wrong.append(f"position {clause['position']!r}")
    if not clauses:
        wrong.append("no clause")
    if wrong:
        raise RowcastError(
            f"expected a line of the GenEval set, found {', '.join(wrong)} in {where}: "
            "copy the prompt's line of the set there"
        )


def verdict(
    objects: Mapping[str, Sequence[Detection]], metadata: Mapping[str, Any], judge: ColourJudge
) -> Verdict:
    """Judges one image.

    Args:
        objects: the detections that count, by class, most confident first.
        metadata: the prompt's line: clauses `include` (all must hold) and `exclude` (none may).
        judge: asked for colours only where a clause names one and there are enough objects.
    """
    reasons: list[str] = []
    matched: list[Sequence[Detection] | None] = []
    for clause in metadata.get("include", []):
        name, count = clause["class"], clause["count"]
        found = objects.get(name, [])[:count]
        if len(found) < count:
            reason = f"expected {name}>={count}, found {len(found)}"
        else:
            reason = _wrong_colour(clause, found, judge) or _wrong_place(clause, found, matched)
        matched.append(None if reason else found)
        reasons += [reason] if reason else []
    for clause in metadata.get("exclude", []):
        found = objects.get(clause["class"], [])
        if len(found) >= clause["count"]:
            reasons.append(f"expected {clause['class']}<{clause['count']}, found {len(found)}")
    return Verdict(correct=not reasons, reasons=reasons)


def _is_place(place: object, number: int) -> bool:
    """Whether a clause's position names a relation and a clause before it."""
    match place:
        case [str(relation), int(index)]:
            return relation in RELATIONS and 0 <= index < number
        case _:
            return False


def _wrong_colour(clause: Mapping[str, Any], found: Sequence[Detection], judge: ColourJudge) -> str | None:
    """What is wrong with the colours that a clause asks for, if anything."""
    wanted = clause.get("color")
    if wanted is None:
        return None
    colours = judge(clause["class"], found)
    if colours.count(wanted) >= clause["count"]:
        return None
    return f"expected {wanted} {clause['class']}>={clause['count']}, found {', '.join(colours)}"


def _wrong_place(
    clause: Mapping[str, Any], found: Sequence[Detection], matched: Sequence[Sequence[Detection] | None]
) -> str | None:
    """What is wrong with the place that a clause asks for, if anything: every pair has to stand so."""
    if "position" not in clause:
        return None
    relation, index = clause["position"]
    targets = matched[index]
    if targets is None:
        return f"no target for {clause['class']} to be {relation}"
    for each in found:
        for target in targets:
            held = relations(each.box, target.box)
            if relation not in held:
                seen = " and ".join(sorted(held)) or "beside or upon the"
                return f"expected {clause['class']} {relation} target, found {seen} target"
    return None
