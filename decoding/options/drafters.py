"""Options of the decoders with trained drafters other than the spatial heads."""

from dataclasses import dataclass, field

from backbones.rules import count, named, one_of
from decoding.options.rules import RULES, RuleOptions, StrictRule
from decoding.options.ssd import FirstRow


@dataclass(frozen=True, kw_only=True)
class MTPOptions(FirstRow):
    """1-D multi-token prediction with SSD's rounds: the whole raster is painted as SSD paints row 0."""


@dataclass(frozen=True, kw_only=True)
class MTPStrictOptions:
    """1-D multi-token prediction with speculative sampling."""

    block: int | None = field(default=None, metadata=count(1))
    """Tokens drafted a forward; null: as many as there are heads."""


@dataclass(frozen=True, kw_only=True)
class EagleOptions:
    """Trees of drafts by a drafter that runs token by token."""

    depth: int = field(default=6, metadata=count(1, 256))
    """Tokens drafted one after another."""
    children: int = field(default=10, metadata=count(1, 1024))
    """Drafts below one node, and nodes of one depth that get drafts below them."""
    nodes: int = field(default=60, metadata=count(1, 4096))
    """Drafts fed a forward: the most likely of all."""
    tree: str = field(default="dynamic", metadata=one_of("dynamic", "static"))
    """What counts as likely: the drafter's own confidence, or the rank among siblings."""
    rule: RuleOptions = field(default=StrictRule(), metadata=named(RULES))
    """The test of a draft."""
