"""How many forwards an image takes, in closed form: the promise that the engine's counter is held to."""

from collections.abc import Mapping
from dataclasses import replace
from math import ceil

from backbones.contract import Grid
from backbones.errors import RowcastError
from decoding.options import parse_options
from decoding.options.drafters import EagleOptions, MTPStrictOptions
from decoding.options.jacobi import JacobiOptions
from decoding.options.spatial import PACOptions, PJDOptions, ZipAROptions
from decoding.options.ssd import FirstRow, SSDExactOptions, SSDOptions


def expected_forwards(grid: Grid, name: str, options: Mapping[str, object], reach: int = 5) -> int:
    """Forwards of one image by a decoder whose count does not depend on the image.

    One for the prefill, which autoregression makes worth a token. SSD, with W columns, H rows, B drafts a
    first-row block, r_h rounds there, b rounds and i staged rounds below, k rows a block:

        1 + ceil((W-1)/B) (r_h+1) + ceil((H-1)/k) (b+i+1)

    Rows that share forwards leave the last commit out: below the first row there are (H-1) b of them when
    they are fused, H-1 + b-1 in a pipeline.

    With the bonus token the first row has ceil(W/(B+1)) blocks. A block that turns out to hold no draft
    (one exact token) skips its rounds. 1-D multi-token prediction counts as one long first row.

    ZipAR with a window of s, where forward 1 + is + x gives token x of row i (i and x from 0):

        W + (H-1) min(s, W)

    Args:
        grid: token grid; row ends cost nothing.
        name: decoder.
        options: its YAML group without `name`.
        reach: heads along the row or the raster, for a block that is null.

    Raises:
        RowcastError: if the decoder has no fixed count, or an option is wrong.
    """
    if name == "ar":
        return grid.size
    if name == "mtp":
        return 1 + _first_row(Grid(rows=1, cols=grid.size), parse_options(name, options), reach)
    if name == "ssd":
        parsed: SSDOptions = parse_options(name, options)
        if not (parsed.early_stop or parsed.adaptive != "none"):
            return _ssd(grid, parsed, reach)
    if name == "zipar":
        rows: ZipAROptions = parse_options(name, options)
        if not rows.adaptive:
            return grid.cols + (grid.rows - 1) * min(rows.window, grid.cols)
    raise RowcastError(
        f"expected a decoder with a fixed count, ar, ssd, mtp or zipar, found {name}: count its trace instead"
    )


def forward_bounds(grid: Grid, name: str, options: Mapping[str, object], reach: int = 5) -> tuple[int, int]:
    """Fewest and most forwards that an image can take; equal for a decoder of fixed count.

    A lossless window makes at least one of its tokens final a forward, so it never takes more than
    autoregression, and at best all of them.

    Raises:
        RowcastError: if the decoder is unknown, or an option is wrong.
    """
    if isinstance(parsed := parse_options(name, options), SSDExactOptions | JacobiOptions | PACOptions):
        return 1 + ceil((grid.size - 1) / parsed.window), grid.size
    if isinstance(parsed, SSDOptions):
        # A block that stops early takes one forward, an adaptive one a round and its commit.
        rounds = 0 if parsed.early_stop else min(1, parsed.rounds)
        first = 0 if parsed.early_stop else min(1, parsed.first_row.rounds)
        staged = 0 if parsed.early_stop else min(1, parsed.staged_rounds)
        shortest = replace(
            parsed,
            rounds=max(rounds, parsed.schedule != "rows"),
            staged_rounds=staged,
            first_row=replace(parsed.first_row, rounds=first),
        )
        fixed = not (parsed.early_stop or parsed.adaptive != "none")
        return _ssd(grid, parsed if fixed else shortest, reach), _ssd(grid, parsed, reach)
    if isinstance(parsed, MTPStrictOptions | EagleOptions):
        drafted = parsed.depth if isinstance(parsed, EagleOptions) else parsed.block or reach
        return 1 + ceil((grid.size - 1) / (drafted + 1)), grid.size
    if isinstance(parsed, ZipAROptions) and parsed.adaptive:
        # No row starts earlier than in the plain form, nor later than after the end of the one above.
        return expected_forwards(grid, name, {"window": parsed.window}, reach), grid.size
    if isinstance(parsed, PJDOptions):
        # The topmost row gains a token a forward at least; no row ends with the one above.
        return ceil((grid.cols - 1) / parsed.window) + grid.rows, grid.size
    count = expected_forwards(grid, name, options, reach)
    return count, count


def has_fixed_count(grid: Grid, options: Mapping[str, object]) -> bool:
    """Whether a decoder takes the same number of forwards for every image.

    Args:
        grid: token grid.
        options: its YAML group, `name` among it.

    Raises:
        RowcastError: if the decoder is unknown, or an option is wrong.
    """
    rest = {name: value for name, value in options.items() if name != "name"}
    fewest, most = forward_bounds(grid, str(options["name"]), rest)
    return fewest == most


def _first_row(grid: Grid, options: FirstRow, reach: int) -> int:
    block = options.block or reach
    if options.bonus_token:
        blocks = ceil(grid.cols / (block + 1))
        bare = grid.cols % (block + 1) == 1
    else:
        blocks = max(1, ceil((grid.cols - 1) / block))
        bare = grid.cols == 1
    return blocks * (options.rounds + 1) - bare * options.rounds


def _ssd(grid: Grid, options: SSDOptions, reach: int) -> int:
    first, below = 1 + _first_row(grid, options.first_row, reach), grid.rows - 1
    match options.schedule:
        case "fused":
            return first + below * options.rounds
        case "pipeline":
            return first + (below + options.rounds - 1 if below else 0)
        case _:
            return first + _rows_below(grid, options)


def _rows_below(grid: Grid, options: SSDOptions) -> int:
    rounds = options.rounds + options.staged_rounds
    below = grid.rows - 1
    # Of a single column, a one-row block holds nothing but the exact token of column 0.
    bare = (below % options.rows if options.rows == 2 else below) if grid.cols == 1 else 0
    return ceil(below / options.rows) * (rounds + 1) - bare * rounds
