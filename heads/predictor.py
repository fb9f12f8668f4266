"""One draft head: from states and the tokens drawn from them to the state some tokens away."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class Predictor(nn.Module):
    """`f(z) = u + SwiGLU(RMSNorm(u))` with `u = W0 z` and `z = [states ; embeddings]`, without biases.

    The form is that of SSD, arXiv 2606.20543, whose heads read one cell. The start is ours: `W0 = [I, 0]` and
    a zero down-projection, so that an untrained head returns the state of its first cell unchanged.

    Args:
        width: D, the width of a state.
        hidden: width of the SwiGLU layer.
        cells: how many cells it reads.
    """

    def __init__(self, width: int, hidden: int, cells: int = 1) -> None:
        super().__init__()
        self.mix = nn.Linear(2 * cells * width, width, bias=False)
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        with torch.no_grad():
            self.mix.weight.zero_()[:, :width].fill_diagonal_(1.0)
            self.down.weight.zero_()

    def forward(
        self, states: Float[Tensor, "*B CD"], embeddings: Float[Tensor, "*B CD"]
    ) -> Float[Tensor, "*B D"]:
        """Predicts a pre-norm state. Inputs of another dtype are cast to the weights' own.

        Args:
            states: of the C cells it reads, one after another (`offsets.beside`).
            embeddings: of their tokens, likewise.
        """
        dtype = self.mix.weight.dtype
        mixed = self.mix(torch.cat([states.to(dtype), embeddings.to(dtype)], dim=-1))
        normed = self.norm(mixed)
        return mixed + self.down(functional.silu(self.gate(normed)) * self.up(normed))
