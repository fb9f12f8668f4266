"""Options of Spatially Speculative Decoding."""

from dataclasses import dataclass, field

from backbones.errors import RowcastError
from backbones.rules import count, named, one_of, within
from decoding.options.rules import RULES, RuleOptions, StrictRule

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
    schedule: str = field(default="rows", metadata=one_of("rows", "fused", "pipeline"))
    """`rows`: a row is refined, then committed by a forward of its own; `fused`: by the first round of the
    next row; `pipeline`: every forward begins a row, and refines all those that are not final."""
    early_stop: bool = False
    """A round that changed nothing ends its block, whose commit is not needed then: the same image sooner."""
    adaptive: str = field(default="none", metadata=one_of("none", "changed", "distance"))
    """What has to fall to `threshold` to end a block's rounds early: the share of changed tokens, or the mean
    total variation between the laws of two rounds; of the worst image of a batch."""
    threshold: float = field(default=0.1, metadata=within(0, 1))
    corrections: int = field(default=0, metadata=count(0, MOST_ROUNDS))
    """Passes of the heads after a round, which redraw drafts beside replaced tokens; 0: none."""
    rule: RuleOptions = field(default=StrictRule(), metadata=named(RULES))
    """How drafts are tested."""

    def __post_init__(self) -> None:
        self._check_overlap()
        if self.staged_rounds and self.rows == 1:
            raise RowcastError(
                f"expected decoder.staged_rounds=0 with one row, found {self.staged_rounds}: "
                "set decoder.rows=2"
            )

    def _check_overlap(self) -> None:
        """Rows that share forwards come one by one, and each with at least one round."""
        if self.schedule == "rows":
            return
        if self.rounds < 1 or self.rows > 1:
            raise RowcastError(
                f"expected decoder.rows=1 and decoder.rounds of at least 1 with schedule={self.schedule}, "
                f"found {self.rows} and {self.rounds}: set decoder.schedule=rows"
            )
        if self.schedule == "pipeline" and (self.early_stop or self.adaptive != "none"):
            raise RowcastError(
                "expected decoder.early_stop=false and decoder.adaptive=none with schedule=pipeline, where "
                f"no row can end early, found {self.early_stop} and {self.adaptive}: set "
                "decoder.schedule=fused"
            )


@dataclass(frozen=True, kw_only=True)
class SSDExactOptions:
    """Decoding in a window, lossless under the strict rule."""

    window: int = field(default=32, metadata=count(1))
    """Tokens fed a forward: one that is final, the others drafts; 1 is plain autoregression."""
    corrections: int = field(default=2, metadata=count(0, MOST_ROUNDS))
    """Passes of the heads after a forward, which redraw drafts beside replaced tokens; 0: none."""
    rule: RuleOptions = field(default=StrictRule(), metadata=named(RULES))
    """How drafts are tested."""
