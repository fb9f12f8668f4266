"""The joint law of the Jacobi family by chi-square, and of what breaks its rules or relaxes them."""

import pytest

from decoding.methods.jacobi import Jacobi
from decoding.options import parse_options
from tests.decoding.broken import (
    HastyJacobi,
    KeptCoupling,
    LatestLaws,
    RatioReuse,
    SharedNoise,
    Sharpened,
    Uniform,
)
from tests.decoding.cases import LEAST, Case
from tests.decoding.tables import TableBackbone
from tests.decoding.test_rules import RELAXED

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("without_shape_checks")]

GROWTH = {"name": "growth", "rounds": 1, "memory": 0.5}


@pytest.fixture(scope="module")
def table():
    """One row of four tokens, laws that depend on the whole prefix."""
    return Case(TableBackbone(1, 4, 3), temperature=1.0)


def p_value(case, kind=Jacobi, images=None, **options):
    return case.p_value(kind(parse_options("jacobi", {"window": 4, **options})), images)


@pytest.mark.parametrize("coupling", ["resample", "maximal", "gumbel"])
def test_every_coupling_is_exact(table, coupling):
    assert p_value(table, coupling=coupling) > LEAST


@pytest.mark.parametrize("start", ["repeat_left", "sample_left"])
def test_every_start_is_exact(table, start):
    assert p_value(table, start=start, window=3) > LEAST


@pytest.mark.parametrize("coupling", ["resample", "maximal", "gumbel"])
def test_any_posterior_is_exact_under_every_coupling(table, coupling):
    assert p_value(table, coupling=coupling, posterior=GROWTH) > LEAST
    assert p_value(table, Sharpened, coupling=coupling) > LEAST


def test_control_drafts_of_the_posterior_recorded_as_the_latest_law(table):
    assert p_value(table, LatestLaws) < LEAST


def test_control_accepted_drafts_reused_with_the_law_before(table):
    assert p_value(table, Uniform, coupling="maximal") > LEAST
    assert p_value(table, KeptCoupling, coupling="maximal") < LEAST


def test_control_drafts_reused_by_a_threshold_on_their_ratio(table):
    assert p_value(table, RatioReuse) < LEAST


def test_control_one_noise_for_all_positions(table):
    assert p_value(table, SharedNoise, coupling="gumbel") < LEAST


def test_control_commit_past_the_first_change(table):
    assert p_value(table, HastyJacobi, images=1_000) < LEAST


@pytest.mark.parametrize("rule", RELAXED)
def test_relaxed_rules_are_lossy(table, rule):
    assert p_value(table, rule={"name": rule, **RELAXED[rule]}, images=1_000) < LEAST


@pytest.mark.slow
@pytest.mark.parametrize("coupling", ["resample", "maximal", "gumbel"])
def test_every_coupling_at_many_images(table, coupling):
    assert p_value(table, coupling=coupling, images=10_000) > LEAST
    assert p_value(table, coupling=coupling, posterior=GROWTH, images=10_000) > LEAST
