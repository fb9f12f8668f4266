"""The correction head: what a state becomes when the token right before it turns out to be another.

Jacobi-type decoding judges all drafts of a window at once, each in the context of the others. Where a draft is
replaced, the law of its right neighbour, computed beside the old token, is out of date until the next forward.
On the pocket model that is where most of the later rejections come from. The head brings the neighbour's state
up to date without a forward; it learns from siblings, two tokens for one place with the states after each.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from heads.contract import Lesson
from heads.loss import law_loss


class Correction(nn.Module):
    """`s + SwiGLU([RMSNorm(s) ; RMSNorm(b) ; RMSNorm(old) ; RMSNorm(new)])`, without biases.

    The layer reads all of its inputs at full width: mixed down to one width first, as a predictor does it, it
    corrected much less. An untrained head returns the state unchanged.

    Args:
        width: D, the width of a state.
        hidden: width of the SwiGLU layer.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.RMSNorm(width, eps=1e-6) for _ in range(4)])
        self.gate = nn.Linear(4 * width, hidden, bias=False)
        self.up = nn.Linear(4 * width, hidden, bias=False)
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
        dtype = self.gate.weight.dtype
        inputs = [part.to(dtype) for part in (state, before, old, new)]
        read = torch.cat([norm(part) for norm, part in zip(self.norms, inputs, strict=True)], -1)
        return inputs[0] + self.down(functional.silu(self.gate(read)) * self.up(read))


def correction_losses(head: Correction, lesson: Lesson) -> dict[str, Float[Tensor, ""]]:
    """`correction`: Smooth-L1 (beta 1) to the true state; `correction law`: cross-entropy of its law, in nats.

    Every pair of siblings teaches twice, from the one token to the other and back.

    Raises:
        RowcastError: if the lesson has no siblings.
    """
    siblings = lesson.require_siblings()
    first, second = lesson.states[:, siblings.places + 1], siblings.states
    one, other = lesson.embeddings[:, siblings.places], siblings.embeddings
    before = lesson.states[:, siblings.places]
    stale, targets = torch.cat([first, second]), torch.cat([second, first])
    corrected = head(stale, torch.cat([before] * 2), torch.cat([one, other]), torch.cat([other, one]))
    corrected, targets = corrected.flatten(0, 1), targets.flatten(0, 1)
    return {
        "correction": functional.smooth_l1_loss(corrected.float(), targets.float()),
        "correction law": law_loss(corrected, targets, lesson),
    }
