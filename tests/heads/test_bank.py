"""The predictor follows its equation, starts as a copy, and keeps its own dtype."""

import pytest
import torch

from backbones.errors import RowcastError
from heads.bank import HeadBank, MTPBank
from heads.offsets import Offset

pytestmark = pytest.mark.unit


def shaken(bank):
    """Random weights everywhere, so that each one matters."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in bank.parameters():
            weight.copy_(0.5 * torch.randn(weight.shape, generator=generator))
    return bank


def test_untrained_heads_copy_their_state_bit_for_bit():
    bank = HeadBank(6, horizontal=5, vertical=2)
    state, embedding = torch.randn(2, 3, 6) * 100, torch.randn(2, 3, 6)
    for offset in bank.offsets:
        assert torch.equal(bank(offset, state, embedding), state)
        assert not torch.equal(shaken(HeadBank(6, 5, 2))(offset, state, embedding), state)


def test_predictor_follows_its_equation():
    bank = shaken(HeadBank(4, horizontal=1, vertical=0, hidden=1.5))
    weights = {name.split(".", 2)[2]: value for name, value in bank.state_dict().items()}
    state, embedding = torch.randn(4), torch.randn(4)
    u = weights["mix.weight"] @ torch.cat([state, embedding])
    normed = weights["norm.weight"] * u / (u.square().mean() + 1e-6).sqrt()
    gate = weights["gate.weight"] @ normed
    expected = u + weights["down.weight"] @ (gate / (1 + (-gate).exp()) * (weights["up.weight"] @ normed))
    torch.testing.assert_close(bank(Offset(0, 1), state, embedding), expected)
    assert weights["gate.weight"].shape == (6, 4)


def test_one_predictor_per_offset_without_biases():
    bank = HeadBank(8, horizontal=3, vertical=2)
    assert [offset.label for offset in bank.offsets] == ["h+1", "h+2", "h+3", "v+1", "v+2"]
    assert sum(weight.numel() for weight in bank.parameters()) == 5 * (2 * 8 * 8 + 3 * 8 * 8 + 8)
    assert not any("bias" in name for name, _ in bank.named_parameters())


def test_each_offset_has_its_own_weights():
    bank = HeadBank(4, horizontal=2, vertical=1)
    bank(Offset(0, 2), torch.randn(3, 4), torch.randn(3, 4)).sum().backward()
    touched = {name.split(".")[1] for name, weight in bank.named_parameters() if weight.grad is not None}
    assert touched == {"h+2"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_inputs_are_cast_to_the_weights(dtype):
    bank = HeadBank(4, horizontal=1).to(dtype)
    given = torch.randn(2, 4, dtype=torch.bfloat16)
    assert bank(Offset(0, 1), given, given.float()).dtype == dtype


def test_missing_head_is_named():
    with pytest.raises(RowcastError, match=r"expected a draft head v\+2, found h\+1, .*, h\+5, v\+1; decode"):
        HeadBank(4)(Offset(2, 0), torch.zeros(4), torch.zeros(4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizontal": 0, "vertical": 0}, "at least one draft head"),
        ({"horizontal": -1}, "at least one draft head"),
        ({"hidden": 0.01}, "at least one unit wide"),
        ({"hidden": float("inf")}, "at least one unit wide"),
        ({"hidden": float("nan")}, "at least one unit wide"),
    ],
)
def test_impossible_banks_are_refused(options, message):
    with pytest.raises(RowcastError, match=message):
        HeadBank(4, **options)


def test_banks_say_what_they_are():
    assert HeadBank(4, horizontal=1, vertical=2).labels == ("h+1", "v+1", "v+2")
    assert HeadBank(4, 1, 2, 1.5, correction=0.5, law_weight=0.1).facts == {
        "name": "ssd",
        "horizontal": 1,
        "vertical": 2,
        "hidden": 1.5,
        "columns": 1,
        "draft_law_weight": 0.0,
        "correction": 0.5,
        "law_weight": 0.1,
    }
    bank = MTPBank(4, ahead=2)
    assert bank.labels == ("t+1", "t+2")
    assert bank.facts == {"name": "mtp", "ahead": 2, "hidden": 1.0}
    assert list(bank.parts()) == ["head t+1", "head t+2"]
    with pytest.raises(RowcastError, match=r"at least one draft head, found 0; set heads.ahead=5"):
        MTPBank(4, ahead=0)
