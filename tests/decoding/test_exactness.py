"""The joint law of whole images by chi-square against the enumerated law of a tiny backbone.

Every claim has a control beside it that breaks the rule and must be caught.
"""

import itertools
from dataclasses import replace

import jaxtyping
import pytest
import torch
from scipy import stats

from decoding import advance
from decoding.engine import generate
from decoding.methods import build_method
from decoding.methods.ssd import SSD
from decoding.methods.ssd_exact import SSDExact
from decoding.noise import Noise
from decoding.options import parse_options
from decoding.warp import Warp
from tests.backbones.tiny import tiny_backbone
from tests.decoding.banks import random_bank
from tests.decoding.broken import FrozenTokens, HastyCommit, HastyJacobi, KeptLaws, StaleLaws, unshifted
from tests.decoding.tables import TableBackbone

pytestmark = pytest.mark.integration

IMAGES = 4_000
LEAST = 1e-4
"""A law is refused below this p-value."""


@pytest.fixture(scope="module", autouse=True)
def without_shape_checks():
    """Shapes are checked in every other test; here they would take three quarters of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


class Case:
    """A tiny grid, its enumerated joint law, and draft heads that know nothing."""

    def __init__(self, backbone, temperature):
        self.backbone = backbone
        self.bank = random_bank(backbone.width)
        codes, size = backbone.codes, backbone.grid.size
        images = torch.tensor(list(itertools.product(range(codes), repeat=size)))
        self.sampling = replace(backbone.sampling, temperature=temperature)
        guided = self.sampling.guidance != 1
        states = backbone.states(backbone.encode(["a b"] * len(images), guided), images)
        laws = Warp(self.sampling)(backbone.head(states), 1 + guided).double()
        self.law = laws.gather(2, images[..., None])[..., 0].prod(1)
        self.weights = codes ** torch.arange(size - 1, -1, -1)

    def counts(self, method, images):
        counts = torch.zeros(len(self.law), dtype=torch.long)
        for samples in torch.arange(images).split(20_000 if method.lockstep else 1):
            noise = Noise(7, ["a b"] * len(samples), samples.tolist())
            tokens = generate(self.backbone, ["a b"] * len(samples), method, noise, self.sampling).tokens
            counts += torch.bincount(tokens @ self.weights, minlength=len(self.law))
        return counts

    def p_value(self, method, images=IMAGES):
        counts = self.counts(method, images)
        order = (self.law * images).sort().indices
        expected, observed = (self.law * images)[order], counts[order].double()
        # The rarest cells together make one that is expected at least five times.
        few = int((expected.cumsum(0) < 5).sum()) + 1
        few = max(few, int((expected < 5).sum()))
        expected = torch.cat([expected[:few].sum()[None], expected[few:]])
        observed = torch.cat([observed[:few].sum()[None], observed[few:]])
        return stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue

    def distance(self, method, images=IMAGES):
        return float((self.counts(method, images) / images - self.law).abs().sum() / 2)

    def ssd(self, kind=SSD, **options):
        return kind(parse_options("ssd", options), self.bank)

    def exact(self, kind=SSDExact, **options):
        return kind(parse_options("ssd_exact", options).window, self.bank)


def tiny(*grid, row_end=False):
    # Flat enough that every cell counts.
    return Case(tiny_backbone(*grid, row_end, seed=3), temperature=6.0)


@pytest.fixture(scope="module")
def line():
    """One row of four tokens: three drafts in one block."""
    return tiny(1, 4, 3)


@pytest.fixture(scope="module")
def square():
    return tiny(2, 2, 3, row_end=True)


@pytest.fixture(scope="module")
def tower():
    """Rows 1 and 2 are one block of three drafts."""
    return tiny(3, 2, 2)


@pytest.fixture(scope="module")
def table():
    """Two by two, laws that depend on the whole prefix: painted one by one, so it has to be fast."""
    return Case(TableBackbone(2, 2, 3), temperature=1.5)


def test_autoregression_is_exact(square, line):
    method = build_method("ar", {}, None)
    assert square.p_value(method) > LEAST
    assert line.p_value(method) > LEAST


def test_ssd_is_exact_with_as_many_rounds_as_drafts(square, line, tower):
    assert line.p_value(line.ssd(first_row={"rounds": 3})) > LEAST
    assert square.p_value(square.ssd(rounds=4)) > LEAST
    assert tower.p_value(tower.ssd(rounds=3, rows=2)) > LEAST
    assert tower.p_value(tower.ssd(rounds=1, rows=2, staged_rounds=2)) > LEAST


def test_ssd_with_fewer_rounds_is_not(line, tower):
    assert line.p_value(line.ssd(first_row={"rounds": 1})) < LEAST
    assert tower.p_value(tower.ssd(rounds=0, rows=2)) < LEAST


def test_rounds_bring_the_law_nearer(line):
    distances = [line.distance(line.ssd(first_row={"rounds": rounds})) for rounds in range(4)]
    assert distances == sorted(distances, reverse=True)
    assert distances[0] > 5 * distances[3]


def test_control_draft_law_kept_after_a_round(line):
    assert line.p_value(line.ssd(StaleLaws, first_row={"rounds": 3})) < LEAST


def test_control_accepted_tokens_frozen(line):
    assert line.p_value(line.ssd(FrozenTokens, first_row={"rounds": 3})) < LEAST


def test_control_laws_without_the_shift(line, monkeypatch):
    monkeypatch.setattr(advance, "_laws", unshifted)
    assert line.p_value(line.ssd(first_row={"rounds": 3})) < LEAST


@pytest.mark.parametrize("window", [2, 4])
def test_ssd_exact_is_exact(table, window):
    assert table.p_value(table.exact(window=window)) > LEAST


@pytest.mark.parametrize("name", ["sjd", "mc_sjd"])
def test_jacobi_is_exact(table, name):
    assert table.p_value(build_method(name, {"window": 3}, None)) > LEAST


def test_control_jacobi_commit_past_the_first_change(table):
    assert table.p_value(HastyJacobi(3), 2_000) < LEAST


def test_ssd_exact_on_a_trunk_is_exact(square):
    assert square.p_value(square.exact(), 1_000) > LEAST


def test_control_draft_law_kept_for_accepted_tokens(table):
    assert table.p_value(table.exact(KeptLaws), 2_000) < LEAST


def test_control_commit_past_the_first_change(table):
    assert table.p_value(table.exact(HastyCommit), 500) < LEAST


def test_control_exact_without_the_shift(table, monkeypatch):
    monkeypatch.setattr(advance, "_laws", unshifted)
    assert table.p_value(table.exact(), 500) < LEAST


@pytest.mark.slow
def test_ssd_exact_at_two_hundred_thousand_images(table):
    assert table.p_value(table.exact(), 200_000) > LEAST


@pytest.mark.slow
def test_exact_at_two_hundred_thousand_images(square, line, tower):
    images = 200_000
    assert square.p_value(build_method("ar", {}, None), images) > LEAST
    assert line.p_value(line.ssd(first_row={"rounds": 3}), images) > LEAST
    assert square.p_value(square.ssd(rounds=4), images) > LEAST
    assert tower.p_value(tower.ssd(rounds=3, rows=2), images) > LEAST
    assert tower.p_value(tower.ssd(rounds=1, rows=2, staged_rounds=2), images) > LEAST
    assert tower.p_value(tower.ssd(rounds=2, rows=2), images) < LEAST
