"""The plot of acceptance against images trained on: inline SVG in the page's own colours."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

WIDTH, HEIGHT = 880, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 24, 52


@dataclass(frozen=True, kw_only=True)
class _Line:
    """Points joined by a line, with a name at the end."""

    name: str
    style: str
    points: list[tuple[float, float]]


def learning_plot(learning: Mapping[str, Any]) -> str:
    """Held-out images and rollouts at each validation after the first step, with the fitted curve if any."""
    trained = [entry for entry in learning["validations"] if entry["images"] > 0]
    if not trained:
        return ""
    lines = _lines(learning)
    curve = learning["curve"]
    xs = [x for line in lines for x, _ in line.points] + (curve["images"] if curve else [])
    ys = [y for line in lines for _, y in line.points]
    if curve:
        ys += [*curve["low"], *curve["high"]]
    margin = 0.08 * (max(ys) - min(ys)) or 0.05
    across = _logarithmic(min(xs) / 1.1, max(xs) * 1.1)
    bottom, top = max(0.0, min(ys) - margin), min(1.0, max(ys) + margin)

    def down(y: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (top - y) / (top - bottom)

    label = "accepted share of first drafts"
    parts = [f'<svg class="plot learning" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">']
    ticks = [entry["images"] for entry in trained] + (curve["images"][-1:] if curve else [])
    parts += _axes(bottom, top, down, ticks, across)
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}">images trained on (log scale)</text>'
    )
    parts.append(f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)">{label}</text>')
    if curve:
        upper = list(zip(curve["images"], curve["high"], strict=True))
        lower = list(zip(curve["images"], curve["low"], strict=True))
        parts.append(f'<path class="band" d="M{_path([*upper, *lower[::-1]], across, down)}Z"/>')
        middle = _path(list(zip(curve["images"], curve["value"], strict=True)), across, down)
        parts.append(f'<path style="fill:none;stroke:var(--soft);stroke-dasharray:4 4" d="M{middle}"/>')
    for height, line in enumerate(lines):
        parts += _drawn(line, across, down, float(TOP + 14 + 18 * height))
    return "".join([*parts, "</svg>"])


def _lines(learning: Mapping[str, Any]) -> list[_Line]:
    validations, gaps = learning["validations"], learning["fair_gaps"]
    held_out = [(entry["images"], sum(entry["held_out"]) / len(entry["held_out"])) for entry in validations]
    seen = [(images, share + gap) for (images, share), gap in zip(held_out, gaps, strict=False)]
    lines = [
        _Line(name="held-out images", style="stroke:var(--accent)", points=held_out),
        _Line(name="rollouts, were they as easy", style="stroke:var(--verify)", points=seen),
    ]
    trained = [replace(line, points=[point for point in line.points if point[0] > 0]) for line in lines]
    return [line for line in trained if line.points]


def _logarithmic(low: float, high: float) -> Callable[[float], float]:
    return lambda x: LEFT + (WIDTH - LEFT - RIGHT) * math.log(x / low) / math.log(high / low)


def _path(
    points: Sequence[tuple[float, float]], across: Callable[[float], float], down: Callable[[float], float]
) -> str:
    return "L".join(f"{across(x):.1f} {down(y):.1f}" for x, y in points)


def _drawn(
    line: _Line, across: Callable[[float], float], down: Callable[[float], float], key: float
) -> list[str]:
    marks = [
        f'<circle cx="{across(x):.1f}" cy="{down(y):.1f}" r="4" style="{line.style}">'
        f"<title>{line.name}: {y:.3f} after {x:,.0f} images</title></circle>"
        for x, y in line.points
    ]
    return [
        f'<path style="fill:none;stroke-width:2;{line.style}" d="M{_path(line.points, across, down)}"/>',
        *marks,
        f'<path style="stroke-width:3;{line.style}" d="M{LEFT + 14} {key - 4}h18"/>',
        f'<text x="{LEFT + 40}" y="{key}" style="text-anchor:start">{line.name}</text>',
    ]


def _axes(
    bottom: float,
    top: float,
    down: Callable[[float], float],
    images: Sequence[float],
    across: Callable[[float], float],
) -> list[str]:
    parts, floor = [], HEIGHT - BOTTOM
    step = next(size for size in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if (top - bottom) / size <= 7)
    for index in range(math.ceil(bottom / step), math.floor(top / step) + 1):
        y = down(index * step)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(
            f'<text x="{LEFT - 10}" y="{y + 4:.1f}" style="text-anchor:end">{index * step:.2f}</text>'
        )
    last = -math.inf
    for count in images:
        if across(count) - last > 60:
            parts.append(f'<text x="{across(count):.1f}" y="{floor + 20}">{count:,.0f}</text>')
            last = across(count)
    parts.append(f'<path class="axis" d="M{LEFT} {floor}H{WIDTH - RIGHT}"/>')
    return parts
