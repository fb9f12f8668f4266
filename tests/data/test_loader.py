"""The loader: every sample once an epoch, equally many batches on every rank, exact resume anywhere."""

import pytest
import torch

from backbones.errors import RowcastError
from data.loader import ResumableLoader

pytestmark = pytest.mark.unit


class Ranks:
    """Stands for a process group of `world` ranks, of which this process is `rank`."""

    def __init__(self, monkeypatch):
        self.rank, self.world = 0, 1
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: self.rank)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: self.world)


@pytest.fixture
def ranks(monkeypatch):
    return Ranks(monkeypatch)


def epoch_of_all(ranks, world, data=range(50), batch=4, state=None, batches=None):
    """The rest of an epoch on every rank in turn: each rank's batches, and the common state after them."""
    ranks.world = world
    parts, states = [], []
    for ranks.rank in range(world):
        loader = ResumableLoader(data, batch, seed=3)
        if state is not None:
            loader.load_state_dict(state)
        part = []
        for samples in loader:
            part.append(samples)
            if len(part) == batches:
                break
        parts.append(part)
        states.append(loader.state_dict())
    assert all(state == states[0] for state in states)
    return parts, states[0]


def flat(parts):
    return [sample for part in parts for samples in part for sample in samples]


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("length", [50, 48, 12])
def test_each_sample_comes_once_up_to_the_dropped_tail(ranks, world, length):
    parts, state = epoch_of_all(ranks, world, range(length))
    steps = length // (4 * world)
    assert [len(part) for part in parts] == [steps] * world
    assert all(len(samples) == 4 for part in parts for samples in part)
    seen = flat(parts)
    assert len(seen) == len(set(seen)) == steps * 4 * world
    assert state == {"epoch": 1, "seen": 0}
    assert len(ResumableLoader(range(length), 4, seed=3)) == steps


def test_epochs_and_seeds_have_their_own_order():
    loader = ResumableLoader(range(50), 4, seed=3)
    first, second = list(loader), list(loader)
    assert first != second
    assert list(ResumableLoader(range(50), 4, seed=3)) == first
    assert list(ResumableLoader(range(50), 4, seed=4)) != first


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("stop", [1, 3, 4])
def test_resume_goes_on_with_the_very_next_batch(ranks, world, stop):
    """Mid-epoch, and at the boundary: the state is saved while the trainer holds the last batch."""
    data = range(4 * world * 4 + 1)
    whole = [epoch_of_all(ranks, world, data, state={"epoch": epoch, "seen": 0})[0] for epoch in (0, 1)]
    before, state = epoch_of_all(ranks, world, data, batches=stop)
    after, _ = epoch_of_all(ranks, world, data, state=state)
    if stop < 4:
        assert [a + b for a, b in zip(before, after, strict=True)] == whole[0]
    else:
        assert (before, after) == (whole[0], whole[1])


@pytest.mark.parametrize(("old", "new"), [(2, 1), (1, 3), (3, 2)])
def test_another_number_of_ranks_takes_the_remaining_samples(ranks, old, new):
    before, state = epoch_of_all(ranks, old, batches=2)
    after, _ = epoch_of_all(ranks, new, state=state)
    remaining = set(range(50)) - set(flat(before))
    seen = flat(after)
    assert len(seen) == len(set(seen)) > len(remaining) - 4 * new
    assert set(seen) <= remaining


def test_a_rest_too_small_for_more_ranks_starts_the_next_epoch(ranks):
    _, state = epoch_of_all(ranks, 1, batches=11)
    parts, state = epoch_of_all(ranks, 3, state=state)
    assert state == {"epoch": 2, "seen": 0}
    assert len(flat(parts)) == 48


def test_an_abandoned_epoch_goes_on_where_it_stopped():
    loader = ResumableLoader(range(50), 4, seed=3)
    first = next(iter(loader))
    assert [first, *loader] == list(ResumableLoader(range(50), 4, seed=3))


def test_a_set_smaller_than_one_batch_per_rank_is_refused(ranks):
    ranks.world = 2
    loader = ResumableLoader(range(7), 4, seed=3)
    with pytest.raises(RowcastError, match=r"expected at least 8 rollouts .* found 7"):
        next(iter(loader))
    with pytest.raises(RowcastError):
        len(loader)


def test_control_the_state_must_move_before_the_yield():
    """A loader that moves on after the yield repeats the batch that its trainer held when it was saved."""

    class Late(ResumableLoader):
        def __iter__(self):
            states = [self.state_dict()]
            for samples in super().__iter__():
                states.append(self.state_dict())
                self.load_state_dict(states[-2])
                yield samples
                self.load_state_dict(states[-1])

    late, right = Late(range(50), 4, seed=3), ResumableLoader(range(50), 4, seed=3)
    for loader in (late, right):
        first = next(iter(loader))
        again = ResumableLoader(range(50), 4, seed=3)
        again.load_state_dict(loader.state_dict())
        assert (next(iter(again)) == first) == (loader is late)


def test_the_largest_seed_has_an_order_of_its_own():
    orders = [[i for batch in ResumableLoader(range(9), 1, seed) for i in batch] for seed in (0, 2**63 - 1)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(9))
    assert orders[0] != orders[1]
