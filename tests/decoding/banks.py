"""Draft heads for the tests: useless ones, and ones that know the answer."""

import torch
from torch import Tensor, nn

from heads.bank import HeadBank
from heads.offsets import Offset


def random_bank(
    width: int, horizontal: int = 5, vertical: int = 2, seed: int = 0, correction: float = 0.0
) -> HeadBank:
    """Heads whose drafts have nothing to do with the backbone."""
    generator = torch.Generator().manual_seed(seed)
    bank = HeadBank(width, horizontal, vertical, correction=correction)
    for module in bank.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5, generator=generator)
    return bank.requires_grad_(False)


class OracleBank(HeadBank):
    """Heads that return the true state: they find where they are by looking the given state up."""

    def __init__(self, states: Tensor) -> None:
        """Takes the emission states of whole images, `[GN, P, D]`, and the width of their rows."""
        super().__init__(states.shape[-1], 5, 2)
        self.states = states
        self.cols = 0

    def forward(self, offset: Offset, state: Tensor, embedding: Tensor) -> Tensor:
        here = torch.cdist(state, self.states).argmin(-1)
        there = here + offset.down * self.cols + offset.right
        return self.states.gather(1, there[..., None].expand_as(state))


class CoordinateBank(HeadBank):
    """Heads for the coordinate backbone: state and token of a pair must be the same cell.

    With rows of `cols` the vertical ones read three columns, which must be neighbours, and nothing past the
    ends of a row.
    """

    def __init__(self, shift: int = 0, cols: int | None = None) -> None:
        super().__init__(2, 5, 2, columns=3 if cols else 1)
        self.shift, self.cols = shift, cols
        self.corrected = 0
        self.targets: list[tuple[int, int]] = []

    def forward(self, offset: Offset, state: Tensor, embedding: Tensor) -> Tensor:
        assert torch.equal(state, embedding), "the state of a pair must emit the token of the pair"
        if self.columns(offset) == 3:
            state, *beside = state.split(2, -1)
            for step, found in zip((-1, 1), beside, strict=True):
                wanted = state + torch.tensor([0, step])
                inside = (wanted[..., 1:] >= 0) & (wanted[..., 1:] < self.cols)
                assert torch.equal(found, wanted * inside), "a neighbour in the row, or nothing"
        target = state + torch.tensor([offset.down, offset.right + self.shift])
        self.targets += [tuple(cell) for cell in target[0].int().tolist()]
        return target

    def correct(self, state: Tensor, before: Tensor, old: Tensor, new: Tensor) -> Tensor:
        """A true state stays: the coordinate backbone's do not depend on the tokens."""
        assert torch.equal(state - before, torch.tensor([0.0, 1.0]).expand_as(state)), "a right neighbour"
        assert torch.equal(before, new), "the state before must emit the new token"
        assert (old != new).any(-1).all(), "the token was replaced"
        self.corrected += state.shape[1]
        return state
