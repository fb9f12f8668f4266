"""The plot of cost against quality: inline SVG, drawn with the page's own colours."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 880, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 20, 52
_TICKS = 5
_LETTER, _LINE = 7.2, 15
"""Width and height of a label's letter, roughly."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One decoder in the plot of cost against quality."""

    name: str
    lossless: bool
    x: float
    y: float
    low: float
    high: float
    tip: str


@dataclass(frozen=True)
class _Scale:
    """From values to places in the picture."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float

    def across(self, x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(x / self.low_x) / math.log(self.high_x / self.low_x)

    def down(self, y: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.high_y - y) / (self.high_y - self.low_y)


def tradeoff_plot(points: Sequence[Point], baseline: str, x_label: str, y_label: str) -> str:
    """Cost (logarithmic) against quality, with 95 % bars; a band carries the baseline's bar across.

    Filled marks are lossless decoders, hollow ones lossy. The line joins the Pareto front: decoders that none
    beats both in cost and in nearness to the baseline's quality.
    """
    low_y, high_y = min(p.low for p in points), max(p.high for p in points)
    margin = 0.1 * (high_y - low_y) or 0.1
    scale = _Scale(
        min(p.x for p in points) / 1.25, max(p.x for p in points) * 1.25, low_y - margin, high_y + margin
    )
    best = front(points, baseline)
    return "".join(
        [
            f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(y_label)}">',
            *_axes(scale, x_label, y_label),
            *_band(points, baseline, scale),
            _line(best, scale),
            *(_mark(point, scale) for point in points),
            *_labels(points, {point.name for point in best}, scale),
            "</svg>",
        ]
    )


def front(points: Sequence[Point], baseline: str) -> list[Point]:
    """The points that none beats in both respects, from the cheapest on."""
    aim = next(point.y for point in points if point.name == baseline)
    kept: list[Point] = []
    for point in sorted(points, key=lambda point: (point.x, abs(point.y - aim))):
        if all(abs(point.y - aim) < abs(other.y - aim) for other in kept):
            kept.append(point)
    return kept


def _axes(scale: _Scale, x_label: str, y_label: str) -> list[str]:
    floor, parts = HEIGHT - BOTTOM, []
    for tick in _even_ticks(scale.low_y, scale.high_y):
        y = scale.down(tick)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4:.1f}" style="text-anchor:end">{tick:g}</text>')
    for tick in _doubling_ticks(scale.low_x, scale.high_x):
        parts.append(f'<text x="{scale.across(tick):.1f}" y="{floor + 20}">{tick:g}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {floor}H{WIDTH - RIGHT}"/>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}">{escape(x_label)}</text>')
    parts.append(f'<text transform="translate(16 {(TOP + floor) / 2}) rotate(-90)">{escape(y_label)}</text>')
    return parts


def _band(points: Sequence[Point], baseline: str, scale: _Scale) -> list[str]:
    return [
        f'<rect class="band" x="{LEFT}" y="{scale.down(point.high):.1f}" width="{WIDTH - LEFT - RIGHT}" '
        f'height="{max(scale.down(point.low) - scale.down(point.high), 1):.1f}"/>'
        for point in points
        if point.name == baseline
    ]


def _line(best: Sequence[Point], scale: _Scale) -> str:
    places = "L".join(f"{scale.across(point.x):.1f} {scale.down(point.y):.1f}" for point in best)
    return f'<path class="front" d="M{places}"/>'


def _mark(point: Point, scale: _Scale) -> str:
    x, y, top, bottom = (
        scale.across(point.x),
        *(scale.down(value) for value in (point.y, point.high, point.low)),
    )
    return (
        f'<g class="mark {"lossless" if point.lossless else "lossy"}"><title>{escape(point.tip)}</title>'
        f'<path d="M{x:.1f} {top:.1f}V{bottom:.1f}M{x - 4:.1f} {top:.1f}h8M{x - 4:.1f} {bottom:.1f}h8"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5"/></g>'
    )


def _labels(points: Sequence[Point], first: set[str], scale: _Scale) -> list[str]:
    """Names beside their marks, those on the front first; one that would cover another is left to its tip."""
    taken = [
        (scale.across(p.x) - 6, scale.down(p.y) - 6, scale.across(p.x) + 6, scale.down(p.y) + 6)
        for p in points
    ]
    labels = []
    for point in sorted(points, key=lambda point: point.name not in first):
        x, y, width = scale.across(point.x), scale.down(point.y), _LETTER * len(point.name)
        for left, low in _places(x, y, width):
            box = (left, low - _LINE + 3, left + width, low + 3)
            inside = box[0] >= LEFT and box[2] <= WIDTH - RIGHT and box[1] >= 0
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                labels.append(f'<text class="name" x="{left:.1f}" y="{low:.1f}">{escape(point.name)}</text>')
                break
    return labels


def _places(x: float, y: float, width: float) -> list[tuple[float, float]]:
    """Left ends and base lines of a label about a mark, best first."""
    return [
        (x + side * 10 - (width if side < 0 else 0), y + shift)
        for shift in (-8, 16, 4, -20, 28)
        for side in (1, -1)
    ]


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _even_ticks(low: float, high: float) -> list[float]:
    raw = (high - low) / _TICKS
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
    first = math.ceil(low / step)
    return [round(float(index * step), 10) for index in range(first, math.floor(high / step) + 1)]


def _doubling_ticks(low: float, high: float) -> list[float]:
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    return [float(2**power) for power in range(first, last + 1)]
