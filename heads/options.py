"""The options of the draft heads by kind: the config group `heads` in typed form, and a bundle's facts.

Without torch, so that a mistake on the command line is answered at once. `conf/train/heads/*.yaml` says what
an option does; here are its type, its bounds and its default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backbones.errors import RowcastError
from backbones.rules import above, count, parse, rule, within


@dataclass(frozen=True, kw_only=True)
class SSDHeads:
    """Predictors along a row and down a column, for Spatially Speculative Decoding."""

    horizontal: int = field(default=5, metadata=count(1, 256))
    vertical: int = field(default=2, metadata=count(1, 256))
    columns: int = field(default=1, metadata=rule("1 or 3", lambda value: value in (1, 3)))
    """Cells that a vertical predictor reads: the one above its target, or also that one's two neighbours."""
    hidden: float = field(default=1.0, metadata=above(0, 64))
    """Width of a predictor's SwiGLU layer, in widths of the backbone."""
    draft_law_weight: float = field(default=0.0, metadata=within(0, 1000))
    """Of the predictors' cross-entropy to the backbone's laws, beside a weight of 1 for the states."""
    correction: float = field(default=2.0, metadata=within(0, 64))
    """Width of the correction head's SwiGLU layer, in widths of the backbone; 0: no such head."""
    law_weight: float = field(default=0.3, metadata=within(0, 1000))
    """Of the correction's cross-entropy to the backbone's laws, beside a weight of 1 for its states."""


@dataclass(frozen=True, kw_only=True)
class MTPHeads:
    """Predictors along the raster, for one-dimensional multi-token prediction."""

    ahead: int = field(default=5, metadata=count(1, 256))
    """Tokens that the farthest predictor looks ahead."""
    hidden: float = field(default=1.0, metadata=above(0, 64))
    """Width of a predictor's SwiGLU layer, in widths of the backbone."""


@dataclass(frozen=True, kw_only=True)
class EagleHeads:
    """One transformer layer that predicts the next state from all states and tokens before it."""

    attention_heads: int | None = field(default=None, metadata=count(1, 1024))
    """Null: the backbone's width in 64s."""
    hidden: float = field(default=2.75, metadata=above(0, 64))
    """Width of the layer's SwiGLU, in widths of the backbone."""
    law_weight: float = field(default=0.1, metadata=within(0, 1000))
    """Of the cross-entropy to the backbone's laws, beside a weight of 1 for the states."""
    noise: float = field(default=0.0, metadata=within(0, 1000))
    """Uniform noise on the states read in training, from -noise/2 to noise/2 on an image of 512 tokens; on
    longer ones as much less as they are longer."""


HEADS: dict[str, type] = {"ssd": SSDHeads, "mtp": MTPHeads, "eagle": EagleHeads}
"""The options of each kind of draft heads by its name, without the name itself."""


def parse_heads(values: Mapping[str, object], where: str = "heads") -> tuple[str, Any]:
    """The kind and the options of draft heads, as their YAML group has them with their `name`.

    Args:
        values: the options by name.
        where: the option that holds them, for the messages.

    Raises:
        RowcastError: if the kind or an option is unknown, of another type or out of range.
    """
    kind = values.get("name")
    if not isinstance(kind, str) or kind not in HEADS:
        raise RowcastError(
            f"option {where}.name: expected one of {', '.join(HEADS)}, found {kind!r}: set heads=ssd"
        )
    options = {name: value for name, value in values.items() if name != "name"}
    return kind, parse(HEADS[kind], options, where)
