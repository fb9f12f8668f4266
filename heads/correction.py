"""The correction head: what a state becomes when the token right before it turns out to be another.

Jacobi-type decoding judges all drafts of a window at once, each in the context of the others. Where a draft
is replaced, the law of its right neighbour, computed beside the old token, is out of date until the next
forward. On the pocket model most of the later rejections come from there. The head brings the neighbour's
state up to date without a forward; it learns from siblings, two tokens for one place with the states after
each.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from heads.contract import Lesson
from heads.loss import law_loss


class Correction(nn.Module):
    """`s + SwiGLU([RMSNorm(s) ; RMSNorm(b) ; RMSNorm(old) ; RMSNorm(new)])`, without biases and scales.

    The layer reads all of its inputs at full width: mixed down to one width first, as a predictor does it, it
    corrected much less. An untrained head returns the state unchanged.

    Args:
        width: D, the width of a state.
        hidden: width of the SwiGLU layer.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        # Gate and values in one product: a call has few rows, so that its cost is in the number of products.
        self.read = nn.Linear(4 * width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        with torch.no_grad():
            self.down.weight.zero_()

    def forward(
        self,
        state: Float[Tensor, "*B D"],
        before: Float[Tensor, "*B D"],
        old: Float[Tensor, "*B D"],
        new: Float[Tensor, "*B D"],
    ) -> Float[Tensor, "*B D"]:
        """The pre-norm state beside the new token. Inputs of another dtype are cast to the weights' own.

        Args:
            state: the state beside the old token.
            before: the state that emits the old and the new token.
            old: embedding of the token that the state leans on.
            new: embedding of the token that replaces it.
        """
        dtype = self.read.weight.dtype
        inputs = torch.stack([part.to(dtype) for part in (state, before, old, new)], -2)
        normed = functional.rms_norm(inputs, inputs.shape[-1:], eps=1e-6)
        gate, values = self.read(normed.flatten(-2)).chunk(2, -1)
        return inputs[..., 0, :] + self.down(functional.silu(gate) * values)


def correction_losses(head: Correction, lesson: Lesson) -> dict[str, Float[Tensor, ""]]:
    """`correction`: Smooth-L1 (beta 1) to the true state; `correction law`: cross-entropy of laws, in nats.

    Every pair of siblings teaches twice, from the one token to the other and back.

    Raises:
        RowcastError: if the lesson has no siblings.
    """
    siblings = lesson.require_siblings()
    rows = torch.arange(len(siblings.places), device=siblings.places.device)[:, None]
    first, second = lesson.states[rows, siblings.places + 1], siblings.states
    one, other = lesson.embeddings[rows, siblings.places], siblings.embeddings
    before = lesson.states[rows, siblings.places]
    stale, targets = torch.cat([first, second]), torch.cat([second, first])
    corrected = head(stale, torch.cat([before] * 2), torch.cat([one, other]), torch.cat([other, one]))
    corrected, targets = corrected.flatten(0, 1), targets.flatten(0, 1)
    return {
        "correction": functional.smooth_l1_loss(corrected.float(), targets.float()),
        "correction law": law_loss(corrected, targets, lesson),
    }
