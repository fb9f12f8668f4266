"""The prompts and image sizes of Lumina-mGPT and Anole: what stands around the user's words.

Lumina-mGPT names the size twice, in an instruction and in two tokens after begin-of-image, height first; its
unconditional branch starts at begin-of-image. Anole paints one size and takes the words as they are.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from backbones.chameleon_vocabulary import BEGIN_IMAGE, BOS, END_TURN, PAD, ROW_END, size_name
from backbones.contract import Grid
from backbones.sizes import grid_of
from backbones.words import Words

TOKEN, CELL = 16, 32
"""Pixels along the side of a token, and of Lumina-mGPT's unit of size."""
AREAS = (1.0, 1.5, 2.0)
"""Sides of Lumina-mGPT's square images as multiples of the VQ's own (512): -512, -768 and -1024."""
LONGEST = 4
"""Lumina-mGPT's largest ratio of width to height, and of height to width."""


@dataclass(frozen=True, kw_only=True)
class PromptFormat:
    """How prompts are written: the user's words, and the ids around them."""

    words: Words
    pad: int
    instruction: str
    """Text in front of the user's."""
    before: list[int]
    after: list[int]
    """Ends where image token 0 begins."""
    unconditional: list[int]
    """The whole prompt of the unconditional branch."""
    row_end: int | None
    """Id of the token after each row, if there is one."""

    def ids(self, prompt: str) -> list[int]:
        """The ids of a whole prompt.

        Raises:
            RowcastError: if it is empty or holds a special token.
        """
        self.words.check(prompt)
        return [*self.before, *self.words.encode(self.instruction + prompt), *self.after]


def special_tokens(grid: Grid) -> tuple[str, ...]:
    """Names that prompts are written with, for images of `grid`; Anole's vocabulary has Lumina's too."""
    return (BOS, PAD, END_TURN, BEGIN_IMAGE, size_name(grid.rows // 2), size_name(grid.cols // 2), ROW_END)


def lumina_format(words: Words, grid: Grid) -> PromptFormat:
    """Lumina-mGPT's prompts for images of `grid`; `words` knows its `special_tokens`."""
    height, width = size_name(grid.rows // 2), size_name(grid.cols // 2)
    header = [words[BEGIN_IMAGE], words[height], words[width]]
    size = f"{grid.cols * TOKEN}x{grid.rows * TOKEN}"
    return PromptFormat(
        words=words,
        pad=words[PAD],
        instruction=f"Generate an image of {size} according to the following prompt:\n",
        before=[words[BOS]],
        after=[words[END_TURN], *header],
        unconditional=header,
        row_end=words[ROW_END],
    )


def anole_format(words: Words, grid: Grid) -> PromptFormat:
    """Anole's prompts, the same for every grid.

    Chameleon guides by three branches: everything, the images alone, and nothing. Without images in the
    prompt the last two are the same, and what is left is plain guidance with the scale of the text.
    """
    return PromptFormat(
        words=words,
        pad=words[PAD],
        instruction="",
        before=[words[BOS]],
        after=[words[END_TURN], words[BEGIN_IMAGE]],
        unconditional=[words[BOS], words[BEGIN_IMAGE]],
        row_end=None,
    )


def lumina_grid(size: str | None, side: int) -> Grid:
    """The token grid of an image size; none takes the square of -768.

    A checkpoint does not say for which of the three areas it was trained, so the sizes of all are taken.

    Args:
        size: width x height in pixels, as in 1024x576.
        side: pixels along the side of the images that the VQ was trained on (512 as published).

    Raises:
        RowcastError: for a size that Lumina-mGPT was not trained on, with its neighbours.
    """
    squares = [round(side * area) for area in AREAS]
    grids = {text: grid for square in squares for text, grid in _sizes(square).items()}
    default = f"{squares[1]}x{squares[1]}"
    offered = grids if size is None or size in grids else _nearest(size, default, list(grids))
    return grid_of(size, default, {text: grids[text] for text in offered}, "lumina")


def anole_grid(size: str | None, side: int) -> Grid:
    """The one grid of Anole, that of the VQ's own images.

    Raises:
        RowcastError: for any other size.
    """
    square = f"{side}x{side}"
    return grid_of(size, square, {square: Grid(rows=side // TOKEN, cols=side // TOKEN)}, "anole")


@cache
def _sizes(side: int) -> Mapping[str, Grid]:
    """The sizes of about the area of a square, in whole cells: the staircase under columns x rows = cells.

    Step by step from one row of all cells to one column: rows are added while they fit, else a column goes.
    """
    cells = (side // CELL) ** 2
    steps = [
        (cols, rows)
        for cols in range(cells, 0, -1)
        for rows in range(max(1, cells // (cols + 1)), cells // cols + 1)
        if max(cols, rows) <= LONGEST * min(cols, rows)
    ]
    return {f"{cols * CELL}x{rows * CELL}": Grid(rows=2 * rows, cols=2 * cols) for cols, rows in steps}


def _nearest(size: str, default: str, known: list[str], count: int = 6) -> list[str]:
    """The known sizes nearest in shape and area to what a user wrote: there are too many to list them all."""

    def shape_and_area(text: str) -> tuple[float, float]:
        sides = [math.log1p(float(number)) for number in re.findall(r"[0-9]+", text) or default.split("x")]
        return sides[0] - sides[-1], sides[0] + sides[-1]

    shape, area = shape_and_area(size)

    def distance(text: str) -> float:
        other = shape_and_area(text)
        return abs(other[0] - shape) + abs(other[1] - area)

    return sorted(known, key=distance)[:count]
