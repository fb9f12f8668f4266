"""The sampling kernel that every method shares: inverse-CDF draws and the residual.

`p` is the law a token should have, `q` the law it was drawn from. Both are dense fp32 and come from the
same `Warp`. Pure functions, vectorised over all leading axes (`*B`), without host synchronisation.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def sample(p: Float[Tensor, "*B V"], u: Float[Tensor, "*B"]) -> Int[Tensor, "*B"]:
    """Draws from `p` (any positive mass) by inverse CDF at the uniforms `u` in [0, 1).

    A code of zero probability is never drawn: the search only stops at codes with mass, and the total is
    the largest value of the CDF at such a code, so rounding in a parallel scan cannot overshoot it.
    """
    support = p > 0
    cdf = p.double().cumsum(-1).masked_fill_(~support, 0)
    total = cdf.amax(-1, keepdim=True)
    return (cdf > u[..., None] * total).to(torch.uint8).argmax(-1)


def residual(p: Float[Tensor, "*B V"], q: Float[Tensor, "*B V"]) -> Float[Tensor, "*B V"]:
    """The law of the replacement of a rejected token, max(0, p - q) normalised; `p` where that is empty."""
    excess = (p - q).clamp_(min=0)
    mass = excess.sum(-1, keepdim=True)
    return torch.where(mass > 0, excess / mass, p)


def race(p: Float[Tensor, "*B V"], clocks: Float[Tensor, "*B V"]) -> Int[Tensor, "*B"]:
    """Draws from `p` with noise of its own for each code: the Gumbel-max draw in its exponential form.

    The code whose clock, an exponential variable -log u, rings first at the speed p. With the same clocks,
    near laws mostly give the same code. A code of zero probability is never drawn.
    """
    return (p / clocks).argmax(-1)
