"""An adapter under test, and how its numbers are compared."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from backbones.contract import Prompt
from backbones.errors import RowcastError
from backbones.trunk import SharedTrunk
from tests.backbones.walk import images

TOLERANCE = 2e-5
"""Of states and logits in fp32, as a share of the largest value: rounding differs from kernel to kernel."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """An adapter under test, in fp32 on the CPU."""

    load: Callable[..., SharedTrunk]
    """Loads it anew; takes `dtype`."""
    backbone: SharedTrunk
    """What `load()` gave; checks leave its weights alone."""
    prompts: tuple[str, str]
    """Of different lengths, where the family's prompts have a length."""
    others: tuple[str, str]
    """Other words of the same lengths."""
    elsewhere: str | None = None
    """The fingerprint as another process computed it."""

    @property
    def fed(self) -> int:
        """Tokens that checks feed at most: two rows of a large grid are enough."""
        return min(self.backbone.grid.size - 1, 2 * self.backbone.grid.cols + 3)

    def tokens(self, seed: int = 0) -> Tensor:
        """Two images of random codes, `[2, P]`."""
        return images(self.backbone, 2, seed)

    def some(self, seed: int = 0) -> Tensor:
        """Their first `fed + 1` tokens: `walk` leaves the last one out."""
        return self.tokens(seed)[:, : self.fed + 1]

    def both(self) -> Prompt:
        return self.backbone.encode(self.prompts)


def require_close(found: Tensor, expected: Tensor, what: str) -> None:
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, not {expected.shape}"
    error = difference(found, expected)
    assert error <= TOLERANCE, f"{what}: differ by {error:.2g} of the largest value"


def difference(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected.double()).abs().max() / expected.abs().max().clamp_min(1))


def raised(action: Callable[[], object]) -> str:
    """The message of the RowcastError that `action` raises; empty if it raises none."""
    try:
        action()
    except RowcastError as error:
        return str(error)
    return ""
