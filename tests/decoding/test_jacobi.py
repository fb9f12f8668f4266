"""Speculative Jacobi decoding: greedy equality, what is drawn anew, bounds."""

from dataclasses import replace

import pytest
import torch

from decoding.accounting import forward_bounds
from decoding.engine import generate
from decoding.methods import build_method
from decoding.methods.jacobi import MCSJD, SJD
from decoding.noise import Noise
from decoding.rules.rule import Drafts
from tests.backbones.tiny import tiny_backbone

pytestmark = pytest.mark.unit

PROMPT = "a very green coat on white"


def run(backbone, method, seed=0, temperature=1.0):
    sampling = replace(backbone.sampling, temperature=temperature)
    return generate(backbone, [PROMPT], method, Noise(seed, [PROMPT], [0]), sampling)


@pytest.mark.parametrize("name", ["sjd", "mc_sjd"])
@pytest.mark.parametrize(
    ("rows", "cols", "row_end"), [(3, 5, False), (4, 3, True), (1, 7, False), (6, 1, True)]
)
def test_greedy_equals_autoregression(name, rows, cols, row_end):
    backbone = tiny_backbone(rows, cols, row_end=row_end)
    baseline = run(backbone, build_method("ar", {}, None), temperature=0.0)
    for window in (1, 2, cols + 3, rows * cols + 4):
        painted = run(backbone, build_method(name, {"window": window}, None), temperature=0.0)
        least, most = forward_bounds(backbone.grid, name, {"window": window})
        assert torch.equal(painted.tokens, baseline.tokens)
        assert least <= painted.trace.forwards <= most
        assert painted.trace.head_calls == 0


def test_what_follows_the_first_rejection():
    """All mass on code 2: SJD draws it everywhere after the rejection, coupling keeps what it accepted."""
    codes, positions = 4, 5
    p = torch.nn.functional.one_hot(torch.full((1, positions), 2), codes).float()
    q = torch.full((1, positions, codes), 0.25)
    tokens = torch.full((1, positions), 1)
    accepted = torch.tensor([[True, False, True, False, True]])
    u = torch.full((1, positions), 0.5)
    drafts = Drafts(p=p, q=q, tokens=tokens, order=torch.arange(positions)[None], age=tokens * 0)
    assert SJD(positions).repair(drafts, accepted, u).tolist() == [[1, 2, 2, 2, 2]]
    assert MCSJD(positions).repair(drafts, accepted, u).tolist() == [[1, 2, 1, 2, 1]]


def test_drafts_are_uniform_codes_with_one_hot_laws():
    backbone = tiny_backbone(3, 5)
    painted = run(backbone, MCSJD(8), seed=3)
    first = painted.trace.rounds[0]
    assert set(first.offsets) == {"random"}
    assert len(first.positions) == 7
