"""Other draft heads for the tests, along the raster alone: useless ones, and ones that know the answer."""

import torch
from torch import Tensor, nn

from heads.bank import MTPBank
from heads.eagle import EagleDrafter
from heads.offsets import Ahead


def random_mtp(width: int, ahead: int = 5, seed: int = 0) -> MTPBank:
    """Heads whose drafts have nothing to do with the backbone."""
    return _shaken(MTPBank(width, ahead), seed)


def random_drafter(width: int, seed: int = 0) -> EagleDrafter:
    """A drafter whose drafts have nothing to do with the backbone."""
    return _shaken(EagleDrafter(width), seed)


def _shaken(heads, seed):
    generator = torch.Generator().manual_seed(seed)
    for module in heads.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5, generator=generator)
    return heads.requires_grad_(False)


class OracleMTP(MTPBank):
    """Heads that return the true state: they find where they are by looking the given state up."""

    def __init__(self, states: Tensor) -> None:
        """Takes the emission states of whole images, `[GN, P, D]`."""
        super().__init__(states.shape[-1], 5)
        self.states = states

    def forward(self, offset: Ahead, state: Tensor, embedding: Tensor) -> Tensor:
        return _later(self.states, state, offset.steps)


class OracleDrafter(EagleDrafter):
    """A drafter that returns the true state after the one it is given, whatever the token."""

    def __init__(self, states: Tensor) -> None:
        """Takes the emission states of whole images, `[GN, P, D]`."""
        super().__init__(states.shape[-1])
        self.states = states

    def new_cache(self, slots: int) -> "Places":
        return Places()

    def forward(self, states, embeddings, places=None, sees=None, cache=None):
        return _later(self.states, states, 1)


def _later(truth: Tensor, state: Tensor, steps: int) -> Tensor:
    there = torch.cdist(state, truth).argmin(-1) + steps
    return truth.gather(1, there.clamp_max(truth.shape[1] - 1)[..., None].expand_as(state))


class CoordinateMTP(MTPBank):
    """Heads for the coordinate backbone: state and token of a pair must be the same cell."""

    def __init__(self, cols: int) -> None:
        super().__init__(2, 5)
        self.cols = cols
        self.targets: list[int] = []

    def forward(self, offset: Ahead, state: Tensor, embedding: Tensor) -> Tensor:
        assert torch.equal(state, embedding), "the state of a pair must emit the token of the pair"
        place = state[..., 0] * self.cols + state[..., 1] + offset.steps
        self.targets += place[0].int().tolist()
        return _cell(place, self.cols)


class CoordinateDrafter(EagleDrafter):
    """For the coordinate backbone: a pair stands at its place, and sees every place before it once."""

    def __init__(self, cols: int) -> None:
        super().__init__(2)
        self.cols = cols
        self.siblings = 0

    def new_cache(self, slots: int) -> "Places":
        return Places()

    def forward(self, states, embeddings, places=None, sees=None, cache=None):
        assert torch.equal(states, _cell(places, self.cols).expand_as(states)), (
            "the state emits the place's token"
        )
        self.siblings += int((states != embeddings).any(-1)[0].sum())
        old = len(cache.places)
        cache.places += places.tolist()
        for row, (place, seen) in enumerate(zip(places.tolist(), sees.tolist(), strict=True)):
            assert len(seen) == len(cache.places)
            assert seen[old + row], "a pair sees itself"
            assert sorted(cache.places[entry] for entry, flag in enumerate(seen) if flag) == list(
                range(place + 1)
            )
        return _cell(places + 1, self.cols).expand_as(states).clone()


class Places:
    """In place of a cache: where its entries stand."""

    def __init__(self) -> None:
        self.places: list[int] = []

    def keep(self, length: int) -> None:
        self.places = self.places[:length]


def _cell(place: Tensor, cols: int) -> Tensor:
    return torch.stack([place // cols, place % cols], -1).float()
