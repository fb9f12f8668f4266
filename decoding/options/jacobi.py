"""Options of the Jacobi family: rivals without heads, in a window of drafts that are refined together."""

from dataclasses import dataclass, field

from backbones.rules import count, named, one_of, within
from decoding.options.rules import RULES, RuleOptions, StrictRule


@dataclass(frozen=True, kw_only=True)
class NoPosterior:
    """Drafts are drawn from the law just computed, as in speculative Jacobi decoding."""


@dataclass(frozen=True, kw_only=True)
class GrowthPosterior:
    """Drafts favour tokens whose probability keeps growing (SJD-VP, arXiv 2603.27115)."""

    rounds: int = field(default=3, metadata=count(1, 1000))
    """A token counts as growing after this many rises in a row."""
    memory: float = field(default=0.5, metadata=within(0, 1))
    """Share of the old average in the average of earlier laws, to which the law is compared."""


@dataclass(frozen=True, kw_only=True)
class JacobiOptions:
    """Speculative Jacobi decoding and its relatives; the defaults are SJD's (arXiv 2410.01699)."""

    window: int = field(default=40, metadata=count(1))
    """Tokens fed a forward: one that is final, the others drafts; 1 is plain autoregression."""
    start: str = field(default="random", metadata=one_of("random", "repeat_left", "sample_left"))
    """What a new draft is: a random code, its left neighbour, or the likeliest code of that one's law."""
    coupling: str = field(default="resample", metadata=one_of("resample", "maximal", "gumbel"))
    """How drafts after the first replaced token follow their new law."""
    rule: RuleOptions = field(default=StrictRule(), metadata=named(RULES))
    """How drafts are tested."""
    posterior: NoPosterior | GrowthPosterior = field(
        default=NoPosterior(), metadata=named({"none": NoPosterior, "growth": GrowthPosterior})
    )
    """Which law new drafts are drawn from."""
