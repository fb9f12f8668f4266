"""Options of the Jacobi family: rivals without heads, in a window of drafts that are refined together."""

from dataclasses import dataclass, field

from backbones.rules import count


@dataclass(frozen=True, kw_only=True)
class JacobiOptions:
    """Speculative Jacobi decoding and its relatives."""

    window: int = field(default=40, metadata=count(1))
    """Tokens fed a forward: one that is final, the others drafts; 1 is plain autoregression."""
