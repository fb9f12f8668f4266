"""From logits to probabilities, in the one place where that happens.

Drafts (q), targets (p) and plain autoregression share a `Warp`: laws of identical states are identical.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from backbones.contract import Sampling
from backbones.errors import RowcastError


@dataclass(frozen=True)
class Warp:
    """Guidance, temperature, top-k, top-p, softmax; in fp32.

    Raises:
        RowcastError: if a sampling setting is out of range.
    """

    sampling: Sampling

    def __post_init__(self) -> None:
        s = self.sampling
        # Outside these, laws overflow to NaN, which draws code 0 and says nothing.
        cold = s.temperature == 0
        checks = (
            ("guidance", s.guidance, 0 <= s.guidance <= 1000, "0 to 1000"),
            (
                "temperature",
                s.temperature,
                cold or 1e-3 <= s.temperature <= 1000,
                "0 (greedy), or 0.001 to 1000",
            ),
            ("top_k", s.top_k, s.top_k is None or s.top_k >= 1, "1 or more, or null"),
            ("top_p", s.top_p, s.top_p is None or 0 < s.top_p <= 1, "above 0 and at most 1, or null"),
        )
        for name, found, valid, expected in checks:
            if not valid:
                raise RowcastError(f"expected {name} {expected}, found {found}: set sampling.{name}")

    def __call__(self, logits: Float[Tensor, "GN T V"], branches: int) -> Float[Tensor, "N T V"]:
        """Probabilities of the guided law.

        Args:
            logits: image codes only; with two branches the conditional rows come first.
            branches: G, 2 with guidance and 1 without.
        """
        logits = logits.float()
        if branches == 2:
            conditional, unconditional = logits.chunk(2)
            logits = torch.lerp(unconditional, conditional, self.sampling.guidance)
        if self.sampling.temperature == 0:
            return torch.zeros_like(logits).scatter_(-1, logits.argmax(-1, keepdim=True), 1)
        if self.sampling.temperature != 1:
            logits = logits / self.sampling.temperature
        if self.sampling.top_k is not None and self.sampling.top_k < logits.shape[-1]:
            logits = _top_k(logits, self.sampling.top_k)
        if self.sampling.top_p is not None and self.sampling.top_p < 1:
            logits = _top_p(logits, self.sampling.top_p)
        return logits.softmax(-1)


def _top_k(logits: Float[Tensor, "N T V"], k: int) -> Float[Tensor, "N T V"]:
    """Drops what is below the k-th largest logit; ties with it stay, so that order never decides."""
    least = logits.topk(k, dim=-1).values[..., -1:]
    return logits.masked_fill(logits < least, float("-inf"))


def _top_p(logits: Float[Tensor, "N T V"], mass: float) -> Float[Tensor, "N T V"]:
    """Keeps the smallest set of most likely codes that holds `mass`; at least one."""
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    dropped = (before >= mass).scatter(-1, order, before >= mass)
    # The first code has nothing before it, but rounding may leave a trace there.
    dropped.scatter_(-1, order[..., :1], value=False)
    return logits.masked_fill(dropped, float("-inf"))
