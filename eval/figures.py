"""Pictures inside the report: PNG data addresses and inline SVG, drawn with the page's own colours."""

import base64
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

WIDTH, HEIGHT = 880, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 20, 52
LARGEST = 256
_TICKS = 5


@dataclass(frozen=True, kw_only=True)
class Point:
    """One decoder in the plot of speed against quality."""

    name: str
    lossless: bool
    x: float
    y: float
    low: float
    high: float
    tip: str


def picture(image: UInt8[Tensor, "3 H W"]) -> str:
    """An `img` element; small images keep their pixels, large ones are reduced to 256 pixels."""
    whole = Image.fromarray(image.permute(1, 2, 0).contiguous().cpu().numpy())
    kind = "pixels" if max(whole.size) <= LARGEST // 2 else "photo"
    whole.thumbnail((LARGEST, LARGEST))
    return f'<img class="{kind}" alt="" src="{_data_address(whole)}">'


def heat_map(cells: Sequence[Sequence[float]], highest: float, tip: str) -> str:
    """An `img` element, one pixel a grid cell; opacity is the value's share of `highest`."""
    values = np.asarray(cells, np.float64) / (highest or 1.0)
    pixels = np.zeros((*values.shape, 4), np.uint8)
    pixels[..., :3] = (214, 73, 51)
    pixels[..., 3] = np.round(255 * values.clip(0, 1))
    address = _data_address(Image.fromarray(pixels))
    return f'<img class="pixels heat" alt="{escape(tip)}" title="{escape(tip)}" src="{address}">'


def _data_address(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def tradeoff_plot(points: Sequence[Point], baseline: str, x_label: str, y_label: str) -> str:
    """Cost (logarithmic) against quality, with 95 % bars; a band carries the baseline's bar across.

    Filled marks are lossless decoders, hollow ones lossy.
    """
    low_x, high_x = min(p.x for p in points) / 1.25, max(p.x for p in points) * 1.25
    low_y, high_y = min(p.low for p in points), max(p.high for p in points)
    margin = 0.1 * (high_y - low_y) or 0.1
    low_y, high_y = low_y - margin, high_y + margin

    def across(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(x / low_x) / math.log(high_x / low_x)

    def down(y: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high_y - y) / (high_y - low_y)

    parts = [f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(y_label)}">']
    for tick in _even_ticks(low_y, high_y):
        parts.append(f'<path class="grid" d="M{LEFT} {down(tick):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(
            f'<text x="{LEFT - 10}" y="{down(tick) + 4:.1f}" style="text-anchor:end">{tick:g}</text>'
        )
    for tick in _doubling_ticks(low_x, high_x):
        parts.append(f'<text x="{across(tick):.1f}" y="{HEIGHT - BOTTOM + 20}">{tick:g}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}">{escape(x_label)}</text>')
    parts.append(
        f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)">{escape(y_label)}</text>'
    )
    for point in points:
        if point.name == baseline:
            top, bottom = down(point.high), down(point.low)
            parts.append(
                f'<rect class="band" x="{LEFT}" y="{top:.1f}" width="{WIDTH - LEFT - RIGHT}" '
                f'height="{max(bottom - top, 1):.1f}"/>'
            )
    parts += [_mark(point, across(point.x), down) for point in points]
    return "".join([*parts, "</svg>"])


def _mark(point: Point, x: float, down: Callable[[float], float]) -> str:
    y, top, bottom = down(point.y), down(point.high), down(point.low)
    right = x > 0.8 * WIDTH
    place = f'x="{x - 12 if right else x + 12:.1f}" style="text-anchor:{"end" if right else "start"}"'
    law = "lossless" if point.lossless else "lossy"
    return (
        f'<g class="mark {law}"><title>{escape(point.tip)}</title>'
        f'<path d="M{x:.1f} {top:.1f}V{bottom:.1f}M{x - 4:.1f} {top:.1f}h8M{x - 4:.1f} {bottom:.1f}h8"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6"/>'
        f'<text {place} y="{y - 10:.1f}">{escape(point.name)}</text></g>'
    )


def _even_ticks(low: float, high: float) -> list[float]:
    raw = (high - low) / _TICKS
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
    first = math.ceil(low / step)
    return [round(float(index * step), 10) for index in range(first, math.floor(high / step) + 1)]


def _doubling_ticks(low: float, high: float) -> list[float]:
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    return [float(2**power) for power in range(first, last + 1)]
