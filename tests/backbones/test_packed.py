"""Packed layers give the products of plain ones."""

import pytest
import torch
from torch import nn

from backbones.packed import LEAST_ROWS, PackedLinear, pack

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, LEAST_ROWS - 1, LEAST_ROWS, 33])
def test_equal_to_the_plain_layer(rows, bias):
    torch.manual_seed(0)
    plain = nn.Linear(24, 40, bias=bias).requires_grad_(False)
    packed = PackedLinear(plain)
    for shape in ((rows, 24), (1, rows, 24)):
        inputs = torch.randn(shape)
        torch.testing.assert_close(packed(inputs), plain(inputs), rtol=1e-5, atol=1e-5)
    assert (packed._packed is not None) == (rows >= LEAST_ROWS)


def test_packing_keeps_names_weights_and_other_dtypes():
    model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 4))).requires_grad_(False)
    weights = {name: weight.data_ptr() for name, weight in model.named_parameters()}
    pack(model)
    assert isinstance(model[1][1], PackedLinear)
    assert {name: weight.data_ptr() for name, weight in model.named_parameters()} == weights
    model.to(torch.bfloat16)
    assert model(torch.randn(16, 8, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_gradients_of_the_input_pass_through():
    torch.manual_seed(0)
    plain = nn.Linear(24, 40).requires_grad_(False)
    grown = []
    for layer in (plain, PackedLinear(plain)):
        inputs = torch.ones(LEAST_ROWS, 24, requires_grad=True)
        layer(inputs).square().sum().backward()
        grown.append(inputs.grad)
    torch.testing.assert_close(*grown)
