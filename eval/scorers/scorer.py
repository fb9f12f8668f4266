"""What a scorer is: from pictures and what their prompts ask for to named scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from eval.scorers.pictures import Picture


@dataclass(frozen=True, kw_only=True)
class ImageScore:
    """What one image got."""

    scores: dict[str, float]
    """By protocol: `geneval/hf-mask2former`. A protocol that judges whole sets gives none."""
    detail: dict[str, Any] = field(default_factory=dict)
    """Why, as plain values: reasons and boxes, answers, features."""


@runtime_checkable
class Scorer(Protocol):
    """Judges images one by one under a protocol."""

    protocol: str
    """Scores of two protocols are never compared."""

    @property
    def contract(self) -> Mapping[str, Any]:
        """Models and options: what a score stays true for."""
        ...

    def score(self, pictures: Sequence[Picture]) -> list[ImageScore]:
        """The scores of some pictures, in their order.

        Raises:
            RowcastError: if a picture can't be read.
        """
        ...
