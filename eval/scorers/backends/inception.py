"""The Inception network that FID is defined on: the graph of 2015-12-05, names as in its published port.

It differs from torchvision's Inception v3: averages leave the padding out, and the last block takes a
maximum where the design has an average.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

WIDTH = 2048

Size = int | tuple[int, int]
Layer = tuple[str, int, Size] | tuple[str, int, Size, int]
"""Name, width, kernel, and the stride where it is not 1 (a stride of 2 goes without padding)."""
Branches = Sequence[Sequence[Layer | list[Layer]]]


class Convolution(nn.Module):
    """Convolution, normalisation by stored statistics, ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: Size, stride: int = 1, padding: Size = 0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: Float[Tensor, "N I H W"]) -> Float[Tensor, "N O A B"]:
        return functional.relu(self.bn(self.conv(x)))


class Mixed(nn.Module):
    """Branches side by side; a branch is a chain of layers, the last of which may be several abreast."""

    def __init__(self, inputs: int, branches: Branches, pool: str, pooled: int = 0) -> None:
        """Builds the block.

        Args:
            inputs: channels.
            branches: all but the pooling one.
            pool: `average` and `maximum` keep the size and end in `branch_pool`; `shrink` halves it, bare.
            pooled: width of `branch_pool`.
        """
        super().__init__()
        self.pool = pool
        self.chains: list[list[list[str]]] = []
        for branch in branches:
            width, chain = inputs, []
            for step in branch:
                layers = step if isinstance(step, list) else [step]
                for layer in layers:
                    self._add(layer, width)
                chain.append([layer[0] for layer in layers])
                width = layers[0][1]
            self.chains.append(chain)
        if pooled:
            self._add(("branch_pool", pooled, 1), inputs)

    def _add(self, layer: Layer, inputs: int) -> None:
        name, width, kernel, *stride = layer
        sides = (kernel, kernel) if isinstance(kernel, int) else kernel
        padding = (0, 0) if stride else (sides[0] // 2, sides[1] // 2)
        self.add_module(name, Convolution(inputs, width, sides, *(stride or [1]), padding=padding))

    def forward(self, x: Float[Tensor, "N I H W"]) -> Float[Tensor, "N O A B"]:
        outputs = []
        for chain in self.chains:
            y = x
            for names in chain:
                y = torch.cat([self.get_submodule(name)(y) for name in names], 1)
            outputs.append(y)
        if self.pool == "shrink":
            return torch.cat([*outputs, functional.max_pool2d(x, 3, 2)], 1)
        if self.pool == "maximum":
            pooled = functional.max_pool2d(x, 3, 1, 1)
        else:
            pooled = functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        return torch.cat([*outputs, self.get_submodule("branch_pool")(pooled)], 1)


def _block_a(inputs: int, pooled: int) -> Mixed:
    return Mixed(
        inputs,
        [
            [("branch1x1", 64, 1)],
            [("branch5x5_1", 48, 1), ("branch5x5_2", 64, 5)],
            [("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3)],
        ],
        pool="average",
        pooled=pooled,
    )


def _block_b(inputs: int) -> Mixed:
    return Mixed(
        inputs,
        [
            [("branch3x3", 384, 3, 2)],
            [("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3, 2)],
        ],
        pool="shrink",
    )


def _block_c(width: int) -> Mixed:
    down, across = (7, 1), (1, 7)
    return Mixed(
        768,
        [
            [("branch1x1", 192, 1)],
            [("branch7x7_1", width, 1), ("branch7x7_2", width, across), ("branch7x7_3", 192, down)],
            [
                ("branch7x7dbl_1", width, 1),
                ("branch7x7dbl_2", width, down),
                ("branch7x7dbl_3", width, across),
                ("branch7x7dbl_4", width, down),
                ("branch7x7dbl_5", 192, across),
            ],
        ],
        pool="average",
        pooled=192,
    )


def _block_d() -> Mixed:
    return Mixed(
        768,
        [
            [("branch3x3_1", 192, 1), ("branch3x3_2", 320, 3, 2)],
            [
                ("branch7x7x3_1", 192, 1),
                ("branch7x7x3_2", 192, (1, 7)),
                ("branch7x7x3_3", 192, (7, 1)),
                ("branch7x7x3_4", 192, 3, 2),
            ],
        ],
        pool="shrink",
    )


def _block_e(inputs: int, pool: str) -> Mixed:
    return Mixed(
        inputs,
        [
            [("branch1x1", 320, 1)],
            [("branch3x3_1", 384, 1), [("branch3x3_2a", 384, (1, 3)), ("branch3x3_2b", 384, (3, 1))]],
            [
                ("branch3x3dbl_1", 448, 1),
                ("branch3x3dbl_2", 384, 3),
                [("branch3x3dbl_3a", 384, (1, 3)), ("branch3x3dbl_3b", 384, (3, 1))],
            ],
        ],
        pool=pool,
        pooled=192,
    )


class Inception(nn.Module):
    """From images of 299x299 pixels, values about -1 to 1, to the 2048 numbers before the classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.Conv2d_1a_3x3 = Convolution(3, 32, 3, stride=2)
        self.Conv2d_2a_3x3 = Convolution(32, 32, 3)
        self.Conv2d_2b_3x3 = Convolution(32, 64, 3, padding=1)
        self.pool_1 = nn.MaxPool2d(3, 2)
        self.Conv2d_3b_1x1 = Convolution(64, 80, 1)
        self.Conv2d_4a_3x3 = Convolution(80, 192, 3)
        self.pool_2 = nn.MaxPool2d(3, 2)
        self.Mixed_5b, self.Mixed_5c, self.Mixed_5d = _block_a(192, 32), _block_a(256, 64), _block_a(288, 64)
        self.Mixed_6a = _block_b(288)
        self.Mixed_6b, self.Mixed_6c = _block_c(128), _block_c(160)
        self.Mixed_6d, self.Mixed_6e = _block_c(160), _block_c(192)
        self.Mixed_7a = _block_d()
        self.Mixed_7b, self.Mixed_7c = _block_e(1280, "average"), _block_e(2048, "maximum")

    def forward(self, images: Float[Tensor, "N 3 299 299"]) -> Float[Tensor, "N 2048"]:
        x = images
        for block in self.children():  # in the order above
            x = block(x)
        return x.mean((2, 3))
