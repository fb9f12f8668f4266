"""Golden logits: a few logits of the backbone as its heads knew it, to find out when a library changed it.

The fingerprint is of weights and settings; what a library computes from them may still change. So a bundle
carries the largest logits at a few places of one image, and the versions that computed them.
"""

from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

import torch
import transformers

from backbones.contract import Backbone
from backbones.proof import TOLERANCES, random_codes, teacher_forced
from backbones.rules import rule

PLACES, LARGEST = 8, 4
"""Places of the image, and logits at each."""


def _table(kind: type) -> Any:
    """The rule of a list of equally long, not too long rows of finite numbers."""

    def holds(rows: Any) -> bool:
        lengths = {len(row) if isinstance(row, list) else 0 for row in rows}
        numbers = [number for row in rows if isinstance(row, list) for number in row]
        plain = all(type(number) is kind and isfinite(number) and number < 2**31 for number in numbers)
        return 1 <= len(rows) <= PLACES and len(lengths) == 1 and 1 <= min(lengths) <= LARGEST and plain

    return rule(f"up to {PLACES} rows of up to {LARGEST} numbers", holds)


@dataclass(frozen=True, kw_only=True)
class Golden:
    """Logits of the conditional branch that emit the first tokens of an image of fixed random codes."""

    prompt: str
    torch: str
    """Its version, and that of transformers."""
    transformers: str
    codes: list[list[int]] = field(metadata=_table(int))
    """The most likely codes of every place, best first."""
    logits: list[list[float]] = field(metadata=_table(float))
    """Their logits, less the mean logit of the place."""

    def as_json(self) -> dict[str, object]:
        return asdict(self)

    @property
    def versions(self) -> str:
        return f"torch {self.torch} and transformers {self.transformers}"


def golden(backbone: Backbone, prompt: str) -> Golden:
    """The golden logits of a backbone; its open session is replaced."""
    centred = _logits(backbone, prompt)
    best = centred.topk(min(LARGEST, backbone.codes))
    return Golden(
        prompt=prompt,
        torch=torch.__version__,
        transformers=transformers.__version__,
        codes=best.indices.tolist(),
        logits=[[round(value, 5) for value in row] for row in best.values.tolist()],
    )


def drift(recorded: Golden, backbone: Backbone) -> tuple[float, float]:
    """How far this backbone's logits are from recorded ones, and how far rounding may take them.

    Both are shares of the spread of the logits: the largest difference, and the tolerance of the dtype.
    """
    centred = _logits(backbone, recorded.prompt)
    codes = torch.tensor(recorded.codes).clamp(0, backbone.codes - 1)
    live = centred[: len(codes)].gather(1, codes)
    worst = (live - torch.tensor(recorded.logits)).abs().max()
    return float(worst / centred.std(-1).mean()), 4 * TOLERANCES[backbone.dtype]


@torch.no_grad()
def _logits(backbone: Backbone, prompt: str) -> torch.Tensor:
    """`[places, codes]`, on the CPU."""
    tokens = random_codes(backbone, 1, seed=0)[:, :PLACES]
    logits = teacher_forced(backbone, backbone.encode([prompt], guided=False), tokens)[0].float().cpu()
    return logits - logits.mean(-1, keepdim=True)
