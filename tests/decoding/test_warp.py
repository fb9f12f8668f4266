"""From logits to laws."""

from dataclasses import replace

import pytest
import torch

from backbones.contract import Sampling
from backbones.errors import RowcastError
from decoding.warp import Warp

pytestmark = pytest.mark.unit

LOGITS = torch.tensor([[[1.0, 3.0, 3.0, 0.0, -2.0]]])


def law(logits=LOGITS, branches=1, guidance=1.0, **settings):
    return Warp(Sampling(guidance=guidance, **settings))(logits, branches)[0, 0]


def test_plain_is_the_softmax():
    assert torch.equal(law(), LOGITS.softmax(-1)[0, 0])


def test_guidance_moves_from_the_unconditional_to_the_conditional_branch():
    pair = torch.randn(6, 2, 5, generator=torch.Generator().manual_seed(0))
    conditional, unconditional = pair[:3], pair[3:]
    expected = (unconditional + 2.5 * (conditional - unconditional)).softmax(-1)
    assert torch.allclose(Warp(Sampling(guidance=2.5))(pair, 2), expected, atol=1e-6)
    assert not torch.allclose(Warp(Sampling(guidance=2.5))(pair.roll(3, 0), 2), expected, atol=1e-2)


def test_temperature_divides_and_zero_is_the_first_arg_max():
    assert torch.allclose(law(temperature=2.0), (LOGITS / 2).softmax(-1)[0, 0])
    assert law(temperature=0.0).tolist() == [0, 1, 0, 0, 0]


def test_top_k_keeps_ties():
    assert (law(top_k=1) > 0).tolist() == [False, True, True, False, False]
    assert (law(top_k=3) > 0).tolist() == [True, True, True, False, False]
    assert torch.equal(law(top_k=99), law())


def test_top_p_keeps_the_smallest_set_that_holds_the_mass():
    logits = torch.tensor([0.1, 0.5, 0.15, 0.25]).log()[None, None]
    assert (law(logits, top_p=0.5) > 0).tolist() == [False, True, False, False]
    assert (law(logits, top_p=0.6) > 0).tolist() == [False, True, False, True]
    assert (law(logits, top_p=0.8) > 0).tolist() == [False, True, True, True]
    assert law(logits, top_p=1e-9).tolist() == [0, 1, 0, 0]
    assert torch.equal(law(logits, top_p=1.0), law(logits))


def test_top_p_comes_after_top_k():
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()[None, None]
    # Of the two that top-k keeps, the first holds 4/7.
    assert (law(logits, top_k=2, top_p=0.55) > 0).tolist() == [True, False, False, False]
    assert (law(logits, top_p=0.55) > 0).tolist() == [True, True, False, False]


def test_half_precision_logits_become_fp32_laws():
    assert law(LOGITS.bfloat16()).dtype == torch.float32


INVALID = {
    "temperature": [-1.0, 1e-40, 9e-4, 1e4, float("inf"), float("nan")],
    "guidance": [-1.0, 1001.0, 1e39, float("inf"), float("nan")],
    "top_k": [0],
    "top_p": [0.0, 1.1, float("nan")],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in INVALID for value in INVALID[name]])
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(RowcastError, match=f"expected {name} .*set sampling.{name}"):
        Warp(replace(Sampling(guidance=1.0), **{name: value}))


def test_laws_are_finite_at_the_ends_of_the_ranges():
    pair = 100 * torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    for guidance in (0.0, 1000.0):
        for temperature in (1e-3, 1000.0):
            laws = Warp(Sampling(guidance=guidance, temperature=temperature))(pair, 2)
            assert torch.allclose(laws.sum(-1), torch.ones(1, 3))
