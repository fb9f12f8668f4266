"""Options of the decoders that draft trees without heads, or paint several rows at once."""

from dataclasses import dataclass, field

from backbones.rules import count


@dataclass(frozen=True, kw_only=True)
class PACOptions:
    """SJD-PAC: maximal coupling and a small tree at the front; the defaults are its paper's."""

    window: int = field(default=64, metadata=count(1))
    """Tokens fed a forward beside the tree's side branches: one that is final, the others drafts."""
    depth: int = field(default=3, metadata=count(0, 64))
    """Places after the final token that have several drafts; with 0 it is `mc_sjd`."""
    width: int = field(default=4, metadata=count(1, 1024))
    """Drafts at each of these places."""


@dataclass(frozen=True, kw_only=True)
class ZipAROptions:
    """ZipAR; the default is its paper's for LlamaGen, which takes 16 for wider grids."""

    window: int = field(default=8, metadata=count(1))
    """Tokens of a row before the next one starts; from the row's length on, plain autoregression."""
    adaptive: bool = False
    """Try a row's first token again as the row above grows, and start later if it does not stay."""


@dataclass(frozen=True, kw_only=True)
class PJDOptions:
    """Parallel Jacobi decoding: speculative Jacobi decoding in several rows at once."""

    window: int = field(default=16, metadata=count(1))
    """Tokens fed a row and forward: one that is final, the others drafts."""
    context: int = field(default=4, metadata=count(1))
    """Tokens of a row before the next one starts; from the row's length on, one row at a time, lossless."""
