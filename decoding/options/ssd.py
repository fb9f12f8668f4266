"""Options of Spatially Speculative Decoding."""

from dataclasses import dataclass, field

from backbones.errors import RowcastError
from backbones.rules import count

MOST_ROUNDS = 1000
"""More than a block of any model's rows has drafts, after which rounds change nothing."""


@dataclass(frozen=True, kw_only=True)
class FirstRow:
    """How row 0 is painted, which has no row above it."""

    block: int | None = field(default=None, metadata=count(1))
    """Tokens drafted at a time; null: as many as there are horizontal heads."""
    rounds: int = field(default=1, metadata=count(0, MOST_ROUNDS))
    """Verification rounds of each block."""
    bonus_token: bool = False
    """Draw one more token of each block from the exact law that the commit before it left."""


@dataclass(frozen=True, kw_only=True)
class SSDOptions:
    """The schedule of Spatially Speculative Decoding; the defaults are the paper's best setting."""

    rounds: int = field(default=2, metadata=count(0, MOST_ROUNDS))
    """Verification rounds of each block of rows."""
    rows: int = field(default=1, metadata=count(1, 2))
    """Rows drafted together, 1 or 2."""
    staged_rounds: int = field(default=0, metadata=count(0, MOST_ROUNDS))
    """With two rows: further rounds for the lower one after the upper one is final."""
    first_row: FirstRow = FirstRow()

    def __post_init__(self) -> None:
        if self.staged_rounds and self.rows == 1:
            raise RowcastError(
                f"expected decoder.staged_rounds=0 with one row, found {self.staged_rounds}: "
                "set decoder.rows=2"
            )


@dataclass(frozen=True, kw_only=True)
class SSDExactOptions:
    """Lossless decoding in a window."""

    window: int = field(default=40, metadata=count(1))
    """Tokens fed a forward: one that is final, the others drafts; 1 is plain autoregression."""
    corrections: int = field(default=2, metadata=count(0, MOST_ROUNDS))
    """Passes of the heads after a forward, which redraw drafts beside replaced tokens; 0: none."""
