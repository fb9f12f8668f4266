"""The kernel by enumeration: what it returns follows the target law, whatever the draft law."""

import pytest
import torch

from decoding import kernel
from decoding.rules.rule import Drafts, Strict

pytestmark = pytest.mark.unit


def laws(codes: int):
    """Pairs (p, q): random, with zeros, equal, disjoint, one-hot."""
    generator = torch.Generator().manual_seed(codes)
    random = torch.rand(6, codes, generator=generator) ** 3
    zeros = random * (torch.rand(6, codes, generator=generator) < 0.6)
    zeros[:, 0] += 0.1
    p, q = random[0], random[1]
    half = torch.arange(codes) < codes // 2
    one_hot = torch.eye(codes)
    cases = [(p, q), (zeros[0], zeros[1]), (zeros[2], q), (p, zeros[3]), (p, p), (p * half, q * ~half)]
    cases += [(p, one_hot[codes - 1]), (one_hot[0], q), (one_hot[0], one_hot[1]), (one_hot[1], one_hot[1])]
    return [(a / a.sum(), b / b.sum()) for a, b in cases]


def drafts(p, q, tokens):
    return Drafts(p=p, q=q, tokens=tokens, order=torch.arange(len(tokens)), age=torch.zeros_like(tokens))


def acceptance(p, q):
    """Probability of accepting each code, read off the kernel by bisection over the uniforms."""
    codes = torch.arange(len(p))
    low, high = torch.zeros(len(p), dtype=torch.float64), torch.ones(len(p), dtype=torch.float64)
    for _ in range(50):
        middle = (low + high) / 2
        accepted = Strict().accept(drafts(p.expand(len(p), -1), q.expand(len(p), -1), codes), middle)
        low, high = torch.where(accepted, middle, low), torch.where(accepted, high, middle)
    return low


@pytest.mark.parametrize("codes", range(2, 9))
def test_coupling_has_the_target_law_and_the_most_agreement(codes):
    for p, q in laws(codes):
        a = acceptance(p, q)
        result = q * a + (q * (1 - a)).sum() * kernel.residual(p, q)
        assert (result - p).abs().max() < 1e-6
        total_variation = (p - q).abs().sum() / 2
        assert abs((q * a).sum() - (1 - total_variation)) < 1e-6


def test_enumeration_detects_a_wrong_repair():
    p, q = laws(5)[0]
    a = acceptance(p, q)
    assert (q * a + (q * (1 - a)).sum() * p - p).abs().max() > 1e-3


@pytest.mark.parametrize("codes", range(2, 9))
def test_sample_spends_the_unit_interval_as_the_law_says(codes):
    u = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    for p, _ in laws(codes):
        drawn = kernel.sample(p.expand(len(u), -1), u)
        share = torch.bincount(drawn, minlength=codes) / len(u)
        assert (share - p).abs().max() < 1e-4


def test_codes_of_zero_probability_are_never_drawn():
    extremes = torch.tensor([0.0, 1e-300, 0.5, 1 - 2**-24, 1 - 2**-53], dtype=torch.float64)
    for p in ([0, 0, 1, 0], [0, 0.3, 0, 0.7], [0, 1e-38, 0, 0], [0.1] * 3 + [0], [0, *[1e-3] * 1000, 0]):
        law = torch.tensor(p, dtype=torch.float32).expand(len(extremes), -1)
        drawn = kernel.sample(law, extremes)
        assert (law.gather(1, drawn[:, None]) > 0).all()


def test_residual_is_empty_only_for_equal_laws():
    p, q = laws(4)[0]
    assert torch.equal(kernel.residual(p, p), p)
    excess = kernel.residual(p, q)
    assert (excess[p <= q] == 0).all()
    assert excess.sum() == pytest.approx(1)


def test_repair_leaves_accepted_tokens_and_moves_rejected_ones():
    p, q = torch.tensor([[0.2, 0.8, 0.0]] * 2), torch.tensor([[0.7, 0.2, 0.1]] * 2)
    judged = drafts(p, q, torch.tensor([0, 0]))
    tokens = Strict().repair(judged, torch.tensor([True, False]), torch.tensor([0.1, 0.1]))
    assert tokens.tolist() == [0, 1]


def test_equal_laws_always_accept():
    p = laws(6)[0][0].expand(1000, -1)
    u = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    drawn = kernel.sample(p, u)
    assert Strict().accept(drafts(p, p, drawn), u.flip(0)).all()
