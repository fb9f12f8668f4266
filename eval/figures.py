"""Maps of the grid as pictures inside the page: one pixel a cell."""

import base64
import io
from collections.abc import Sequence
from html import escape

import numpy as np
from PIL import Image

ACCEPTANCE = (31, 111, 208)
TIMES = np.array([(253, 231, 37), (94, 201, 98), (33, 145, 140), (59, 82, 139), (68, 1, 84)], np.float64)
"""The order's colours, from the first forward to the last (Matplotlib's viridis, backwards)."""


def heat_map(cells: Sequence[Sequence[float]], highest: float, tip: str) -> str:
    """An `img` element; opacity is the value's share of `highest`, a cell without a value stays empty."""
    values = np.asarray(cells, np.float64) / (highest or 1.0)
    pixels = np.zeros((*values.shape, 4), np.uint8)
    pixels[..., :3] = ACCEPTANCE
    # The least share is still told from no draft at all.
    pixels[..., 3] = np.round(np.nan_to_num(24 + 231 * values.clip(0, 1), nan=0.0))
    return _image(pixels, tip)


def order_map(cells: Sequence[Sequence[float]], tip: str) -> str:
    """An `img` element; the colour runs from the first forward to the last."""
    values = np.asarray(cells, np.float64)
    low, high = values.min(), values.max()
    places = (values - low) / ((high - low) or 1.0) * (len(TIMES) - 1)
    marks = np.arange(len(TIMES))
    pixels = np.stack([np.interp(places, marks, TIMES[:, channel]) for channel in range(3)], -1)
    opaque = np.full((*values.shape, 1), 255.0)
    return _image(np.round(np.concatenate([pixels, opaque], -1)).astype(np.uint8), tip)


def _image(pixels: np.ndarray, tip: str) -> str:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", optimize=True)
    address = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    return f'<img class="pixels heat" alt="{escape(tip)}" title="{escape(tip)}" src="{address}">'
