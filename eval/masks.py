"""What a trace tells of an image, small enough for a log line: sets of grid cells as hexadecimal numbers."""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from jaxtyping import Bool

from decoding.generation import Trace

ROUNDS = 4
"""Rounds whose cells are logged; of later ones the counts alone."""


def mask(places: Iterable[int]) -> str:
    """Raster positions as a number with a bit for each."""
    bits = 0
    for place in places:
        bits |= 1 << place
    return f"{bits:x}"


def cells(text: str, size: int) -> Bool[np.ndarray, " P"]:
    """Which of `size` positions are in a mask."""
    raw = int(text, 16).to_bytes((size + 7) // 8, "little")
    return np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")[:size].astype(bool)


def direction(label: str) -> str:
    """Where a draft came from: along its row, from the row above, or anything else (`drafts`)."""
    return {"h": "right", "v": "down"}.get(label.partition("+")[0], "drafts")


def judged(trace: Trace, row: int) -> dict[str, list[str]]:
    """One image's examined and accepted cells by direction and round, `right/0`."""
    examined: dict[str, list[int]] = defaultdict(list)
    accepted: dict[str, list[int]] = defaultdict(list)
    for seen in trace.rounds:
        if seen.index >= ROUNDS:
            continue
        flags = seen.accepted[row].tolist()
        for place, label, stands in zip(seen.positions.tolist(), seen.offsets, flags, strict=True):
            name = f"{direction(label)}/{seen.index}"
            examined[name].append(place)
            if stands:
                accepted[name].append(place)
    return {name: [mask(places), mask(accepted[name])] for name, places in examined.items()}


def by_round(trace: Trace, row: int) -> tuple[list[int], list[int]]:
    """How many tokens of one image were judged and how many replaced in each round."""
    length = 1 + max((seen.index for seen in trace.rounds), default=-1)
    examined, changed = [0] * length, [0] * length
    for seen in trace.rounds:
        examined[seen.index] += len(seen.positions)
        changed[seen.index] += int(seen.changed[row].sum())
    return examined, changed
