"""The correction head: its equation, its start, what it learns from, and the way without it."""

import pytest
import torch
from torch.nn.functional import rms_norm, silu, smooth_l1_loss

from backbones.contract import Grid
from backbones.errors import RowcastError
from heads.bank import HeadBank
from heads.contract import Siblings
from heads.correction import Correction, correction_losses
from heads.offsets import Offset
from tests.heads.lessons import lesson
from tests.heads.test_bank import shaken

pytestmark = pytest.mark.unit

GRID = Grid(rows=2, cols=3)


def given(count=4, width=6):
    return torch.randn(count, 5, width, generator=torch.Generator().manual_seed(3)).unbind()


def taught(width=6):
    """A lesson with siblings at two places."""
    generator = torch.Generator().manual_seed(0)
    states, embeddings = torch.randn(2, 2, GRID.size, width, generator=generator).unbind()
    others, after = torch.randn(2, 2, 2, width, generator=generator).unbind()
    siblings = Siblings(places=torch.tensor([[1, 3], [0, 3]]), embeddings=others, states=after)
    plain = lesson(states, embeddings, GRID)
    return type(plain)(**{**vars(plain), "siblings": siblings})


def test_untrained_head_returns_its_state():
    state, before, old, new = given()
    assert torch.equal(Correction(6, 12)(state, before, old, new), state)


def test_head_follows_its_equation():
    head = shaken(Correction(6, 12))
    inputs = given()
    read = torch.cat([rms_norm(part, (6,), eps=1e-6) for part in inputs], -1)
    gate, values = (read @ head.read.weight.T).split(12, -1)
    expected = inputs[0] + (silu(gate) * values) @ head.down.weight.T
    torch.testing.assert_close(head(*inputs), expected)


def test_losses_equal_brute_force_in_both_directions():
    head, full = shaken(Correction(6, 12)), taught()
    siblings, errors, surprises = full.require_siblings(), [], []
    for image in range(2):
        for number, place in enumerate(siblings.places[image].tolist()):
            true, other = full.states[image, place + 1], siblings.states[image, number]
            one, sibling = full.embeddings[image, place], siblings.embeddings[image, number]
            before = full.states[image, place]
            for stale, target, old, new in ((true, other, one, sibling), (other, true, sibling, one)):
                corrected = head(stale, before, old, new)
                errors.append(smooth_l1_loss(corrected, target))
                surprises.append(-(target.softmax(-1) * corrected.log_softmax(-1)).sum())
    losses = correction_losses(head, full)
    torch.testing.assert_close(losses["correction"], torch.stack(errors).mean())
    torch.testing.assert_close(losses["correction law"], torch.stack(surprises).mean())


def test_bank_adds_the_correction_to_the_predictors_mean():
    bank = shaken(HeadBank(6, 1, 1, correction=2.0, law_weight=0.5))
    losses = bank.losses(taught())
    assert list(losses) == ["h+1", "v+1", "correction", "correction law"]
    mean = (losses["h+1"] + losses["v+1"]) / 2
    expected = mean + losses["correction"] + 0.5 * losses["correction law"]
    torch.testing.assert_close(bank.objective(losses), expected)
    bank.objective(losses).backward()
    assert all(weight.grad is not None for weight in bank.parameters())


def test_predictors_learn_the_same_with_and_without_it():
    with_it, without = (shaken(HeadBank(6, 1, 1, correction=width)) for width in (2.0, 0.0))
    without.load_state_dict({name: with_it.state_dict()[name] for name in without.state_dict()})
    for bank in (with_it, without):
        bank.objective(bank.losses(taught())).backward()
    assert all(
        torch.equal(weight.grad, with_it.get_parameter(name).grad)
        for name, weight in without.named_parameters()
    )


def test_bank_without_it_takes_the_difference_of_the_next_head():
    bank, (state, before, old, new) = shaken(HeadBank(6, 1, 1)), given()
    right = Offset(0, 1)
    expected = state + bank(right, before, new) - bank(right, before, old)
    assert torch.equal(bank.correct(state, before, old, new), expected)
    assert not bank.reads_siblings
    with_it = HeadBank(6, 1, 1, correction=2.0)
    assert torch.equal(with_it.correct(state, before, old, new), state), "untrained"
    assert with_it.reads_siblings
    assert list(with_it.parts()) == ["head h+1", "head v+1", "correction"]


def test_what_cannot_be_is_refused():
    with pytest.raises(RowcastError, match=r"one unit wide, found 0.01 .* set heads.correction=1.0"):
        HeadBank(6, correction=0.01)
    without = type(taught())(**{**vars(taught()), "siblings": None})
    with pytest.raises(RowcastError, match=r"expected siblings.*found none.*heads.correction=0"):
        HeadBank(6, 1, 1, correction=1.0).losses(without)
