"""The schedule of Spatially Speculative Decoding: every forward of an image, known before the first.

The rounds are fixed (arXiv 2606.20543, section on decoding), so which positions are drafted, judged, fed and
kept depends on the grid and the options alone; a decoder that stops early leaves steps out. Positions are
raster indices.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from backbones.contract import Grid
from decoding.methods.draft import Source
from decoding.options.ssd import FirstRow, SSDOptions
from heads.offsets import Offset


@dataclass(frozen=True, kw_only=True)
class Step:
    """One forward, and what comes right before it."""

    exact: bool = False
    """First draw the next token from its exact law."""
    sources: tuple[Source, ...] = ()
    """Then draft: the targets follow each other without a gap."""
    final: int
    """Then tokens before this one are final; the rest of the block is judged by the forward."""
    cached: int
    """Tokens that stay in the cache after the forward."""
    repeats: int = 0
    """How many of the next steps are further rounds over the same drafts."""
    left: int = 0
    """How many of the next steps belong to the same block."""


@lru_cache(maxsize=64)
def schedule(grid: Grid, options: SSDOptions) -> tuple[Step, ...]:
    """The forwards after the prefill, in order. What was drafted is final after the last one."""
    below = _rows_below if options.schedule == "rows" else _overlapping_rows
    return (*_first_row(grid, options.first_row), *below(grid, options))


def _first_row(grid: Grid, options: FirstRow) -> Iterator[Step]:
    """Blocks along row 0, each drafted from the last token whose state is exact: its anchor.

    The first anchor is token 0, drawn from the prefill. Later ones are the last token of the block before
    or, as a bonus, one more exact token after it.
    """
    assert options.block is not None
    start, exact = 0, True
    while start < grid.cols:
        anchor = start if exact else start - 1
        end = min(anchor + options.block + 1, grid.cols)
        sources = tuple(
            Source(offset=Offset(down=0, right=step), start=anchor, stop=anchor + 1)
            for step in range(1, end - anchor)
        )
        steps = _refine(start, start + exact, end, options.rounds)
        yield replace(steps[0], exact=exact, sources=sources)
        yield from steps[1:]
        start, exact = end, options.bonus_token


def _rows_below(grid: Grid, options: SSDOptions) -> Iterator[Step]:
    """Blocks of one or two rows, drafted from the last committed row.

    Column 0 of the first one is exact: the commit forward before it emits its law.
    """
    for row in range(1, grid.rows, options.rows):
        height = min(options.rows, grid.rows - row)
        above, start = (row - 1) * grid.cols, row * grid.cols
        end = start + height * grid.cols
        sources = []
        if grid.cols > 1:
            sources.append(Source(offset=Offset(down=1, right=0), start=above + 1, stop=start))
        if height == 2:
            sources.append(Source(offset=Offset(down=2, right=0), start=above, stop=start))
            steps = _refine(
                start, start + 1, end, options.rounds, middle=start + grid.cols, staged=options.staged_rounds
            )
        else:
            # The odd row at the end of two-row blocks gets all the rounds at once.
            steps = _refine(start, start + 1, end, options.rounds + options.staged_rounds)
        yield replace(steps[0], exact=True, sources=tuple(sources))
        yield from steps[1:]


def _overlapping_rows(grid: Grid, options: SSDOptions) -> Iterator[Step]:
    """Rows whose commits ride along with forwards of the rows below, from whose provisional states they come.

    Fused, a row is fed for the last time in the first round of the next one. In a pipeline a row is drafted
    every forward, so that as many rows are refined together as there are rounds. The last row needs no
    commit, as nothing leans on its states. Column 0 is drafted like the others: its exact law comes late.
    """
    apart = 1 if options.schedule == "pipeline" else options.rounds
    for forward in range((grid.rows - 2) * apart + options.rounds if grid.rows > 1 else 0):
        row, place = divmod(forward, apart)
        start = row * grid.cols
        drafts = place == 0 and row < grid.rows - 1
        source = Source(offset=Offset(down=1, right=0), start=start, stop=start + grid.cols)
        oldest = max(1, (forward - options.rounds) // apart + 2) * grid.cols
        rest = options.rounds - 1 - place if apart > 1 else 0
        yield Step(sources=(source,) * drafts, final=oldest, cached=oldest, repeats=rest, left=rest)


def _refine(start: int, first: int, end: int, rounds: int, *, middle: int = 0, staged: int = 0) -> list[Step]:
    """Rounds over the drafts `first..end` of a block that begins at `start`, then its commit forward.

    Between the two, `staged` rounds over `middle..end`: the first of them is at the same time the commit
    forward of `start..middle`. A block without drafts has nothing to judge and is committed at once.
    """
    commit = Step(final=end, cached=end)
    if first == end:
        return [commit]
    return [
        *(
            Step(final=first, cached=start, repeats=rest, left=rest + staged + 1)
            for rest in reversed(range(rounds))
        ),
        *(Step(final=middle, cached=middle, repeats=rest, left=rest + 1) for rest in reversed(range(staged))),
        commit,
    ]
