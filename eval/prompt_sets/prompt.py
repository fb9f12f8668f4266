"""One prompt of a set, in the same form whatever file it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt and what its set says of it."""

    set: str
    id: str
    """What the set's own tools call it."""
    text: str
    category: str
    """The stratum of every test: GenEval's tag, the category of PartiPrompts, the source of DPG's prompt."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What a scorer needs: GenEval's `include` and `exclude`, COCO's `image_id`."""
