"""What every kind of draft heads is: weights that learn from a frozen backbone's states to predict states.

A decoder is written for one kind and knows its class. Training, bundles and reports know this contract alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from backbones.contract import Grid
from backbones.errors import RowcastError


@dataclass(frozen=True, kw_only=True)
class Siblings:
    """Other tokens that might have stood at K places of the images, and what would have come of each.

    A place is a raster index whose right neighbour is in the same row; the branches of an image share them.
    """

    places: Int[Tensor, "B K"]
    embeddings: Float[Tensor, "B K D"]
    """Of the other tokens, drawn by the backbone's law without the token that stands there."""
    states: Float[Tensor, "B K D"]
    """That emit the next token, if the other one stood at the place."""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """Whole images to learn from. Images and guidance branches share the first axis; `P = rows * cols`."""

    states: Float[Tensor, "B P D"]
    """Pre-norm emission states: entry p emits token p."""
    embeddings: Float[Tensor, "B P D"]
    """What the trunk is fed: entry p is token p."""
    grid: Grid
    chunk: int
    """Most state pairs whose activations are alive at once."""
    head: Callable[[Float[Tensor, "*B D"]], Float[Tensor, "*B V"]]
    """The backbone's final norm and output layer: from states to logits in fp32; frozen, and gradients of the
    states pass through it."""
    generator: torch.Generator
    """On the CPU; the same for the same seed, step and process."""
    siblings: Siblings | None = None
    """For heads that read them."""

    def require_siblings(self) -> Siblings:
        """The siblings.

        Raises:
            RowcastError: if there are none.
        """
        if self.siblings is None:
            raise RowcastError(
                "expected siblings to learn the correction from, found none: harvest them, or set "
                "heads.correction=0"
            )
        return self.siblings

    def check(self) -> None:
        """Refuses what is no set of whole images.

        Raises:
            RowcastError: if the images do not fill the grid, or `chunk` is below 1.
        """
        images, positions, _ = self.states.shape
        if images == 0 or positions != self.grid.size or self.chunk < 1:
            raise RowcastError(
                f"expected whole images of {self.grid.size} states and chunks of at least one pair, found "
                f"{images} images of {positions} states and chunks of {self.chunk}; check the rollouts and "
                "trainer.loss_chunk"
            )


@dataclass(frozen=True, kw_only=True)
class Draft:
    """States that heads predict at K places of every image."""

    label: str
    predicted: Float[Tensor, "B K D"]
    targets: Float[Tensor, "B K D"]
    """The true states of the places drafted."""


class DraftHeads(nn.Module, ABC):
    """Draft heads of one kind; they hold nothing of the backbone."""

    kind: ClassVar[str]
    """Their name in `heads.options.HEADS`."""

    reads_siblings: bool = False
    """Whether their lessons need siblings, which take the backbone more work."""

    def __init__(self, width: int, options: Any) -> None:
        """Notes what the weights are made from.

        Args:
            width: D, the width of the backbone's states.
            options: an instance of this kind's class in `heads.options.HEADS`.
        """
        super().__init__()
        self.width, self.options = width, options

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """Labels of what is drafted from one place: "v+1" is a row down, "t+2" two tokens on."""

    @abstractmethod
    def parts(self) -> Mapping[str, nn.Module]:
        """The pieces whose sizes a training run prints, by name; together all weights."""

    @abstractmethod
    def check_targets(self, grid: Grid) -> None:
        """Refuses a grid that holds nothing to learn; call it before the first step.

        Raises:
            RowcastError: naming the option to lower.
        """

    @abstractmethod
    def losses(self, lesson: Lesson) -> dict[str, Float[Tensor, ""]]:
        """The training losses by label, in fp32.

        Raises:
            RowcastError: if there is nothing to learn.
        """

    @abstractmethod
    def drafts(self, lesson: Lesson) -> Iterator[Draft]:
        """What the heads draft from true pairs, label by label, beside what is true there.

        Raises:
            RowcastError: if there is nothing to draft.
        """

    def objective(self, losses: Mapping[str, Float[Tensor, ""]]) -> Float[Tensor, ""]:
        """What training lowers: the mean of `losses`, for kinds that do not weigh them."""
        return torch.stack(list(losses.values())).mean()

    @property
    def facts(self) -> dict[str, Any]:
        """Everything that decides the names and shapes of the weights, as JSON values, `name` among them."""
        return {"name": self.kind, **asdict(self.options)}
