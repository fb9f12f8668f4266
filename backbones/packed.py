"""Frozen fp32 layers on a CPU: oneDNN's kernels on weights packed once, for blocks of tokens.

On an AMD CPU with AVX-512 they took half the time of torch's default fp32 product at 32 rows. Inputs of a few
rows (one token of a guidance pair) stay with the default, which was faster there; so do inputs that want a
gradient, which the packed product does not have. The packed copies take the layers' memory a second time.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

LEAST_ROWS = 8
"""Rows from which on the packed product wins."""


class PackedLinear(nn.Linear):
    """A frozen linear layer with a second, packed copy of its weight, made when it is first needed."""

    def __init__(self, layer: nn.Linear) -> None:
        """Shares the weights of `layer`."""
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias = layer.weight, layer.bias
        self._packed: Tensor | None = None

    def forward(self, input: Float[Tensor, "*B K"]) -> Float[Tensor, "*B M"]:  # noqa: A002
        kind = self.weight.device.type, self.weight.dtype
        few = input.numel() < LEAST_ROWS * self.in_features
        if kind != ("cpu", torch.float32) or few or (input.requires_grad and torch.is_grad_enabled()):
            return linear(input, self.weight, self.bias)
        if self._packed is None:
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self.weight.detach(), None)
        return torch.ops.mkldnn._linear_pointwise(input, self._packed, self.bias, "none", [], "")


def pack(module: nn.Module) -> None:
    """Replaces every linear layer inside `module`, whose weights must not change any more."""
    if not torch.backends.mkldnn.is_available():
        return
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                setattr(parent, name, PackedLinear(child))
