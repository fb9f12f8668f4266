"""Intervals against full enumeration, closed forms and coverage."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from eval.statistics import by_prompt, mean_interval, proportion, ratio_interval, spread

pytestmark = pytest.mark.unit


def test_bootstrap_matches_the_enumeration_of_all_resamples():
    values = [0.3, 1.0, 2.5, 7.0, 7.5]
    every = [np.mean(draw) for draw in itertools.product(values, repeat=len(values))]
    low, high = np.quantile(every, [0.025, 0.975])
    found = mean_interval(values)
    step = (max(values) - min(values)) / len(values) / 10
    assert found.value == pytest.approx(np.mean(values))
    assert found.low == pytest.approx(low, abs=step)
    assert found.high == pytest.approx(high, abs=step)


def test_interval_is_near_the_normal_one_and_repeatable():
    values = np.random.default_rng(1).normal(3, 2, 400).tolist()
    found = mean_interval(values)
    half = 1.96 * np.std(values) / 20
    assert found.low == pytest.approx(found.value - half, abs=half / 10)
    assert found.high == pytest.approx(found.value + half, abs=half / 10)
    assert found == mean_interval(values)
    assert found != mean_interval(values, seed=1)


def test_one_value_has_no_interval():
    found = mean_interval([2.0])
    assert (found.value, found.low, found.high, found.n) == (2.0, None, None, 1)


def test_paired_ratio_is_a_geometric_mean_that_inverts():
    fast, slow = [1.0, 2.0, 4.0], [2.0, 8.0, 8.0]
    found = ratio_interval(slow, fast)
    assert found.value == pytest.approx((2 * 4 * 2) ** (1 / 3))
    assert ratio_interval(fast, slow).value == pytest.approx(1 / found.value)
    assert found.low < found.value < found.high


def test_pairing_removes_what_prompts_share():
    rng = np.random.default_rng(0)
    hardness = rng.lognormal(0, 1, 30)
    ar, ssd = hardness * 2.5 * rng.lognormal(0, 0.01, 30), hardness * rng.lognormal(0, 0.01, 30)
    paired = ratio_interval(ar.tolist(), ssd.tolist())
    broken = ratio_interval(ar.tolist(), rng.permutation(ssd).tolist())
    assert paired.high - paired.low < 0.05
    assert broken.high - broken.low > 0.5


def test_spread_by_hand():
    found = spread([4.0, 1.0, 2.0, 3.0, 5.0])
    assert (found.q1, found.median, found.q3, found.n) == (2.0, 3.0, 4.0, 5)
    assert found.p90 == pytest.approx(4.6)


def test_images_of_one_prompt_count_once():
    assert by_prompt([("b", 1.0), ("a", 5.0), ("b", 3.0)]) == {"b": 2.0, "a": 5.0}


@pytest.mark.parametrize(("right", "n"), [(0, 8), (8, 8), (90, 128), (1, 3)])
def test_wilson_interval_against_scipy(right, n):
    oracle = stats.binomtest(right, n).proportion_ci(0.95, method="wilson")
    found = proportion(right, n)
    assert found.value == right / n
    assert found.low == pytest.approx(oracle.low, abs=1e-12)
    assert found.high == pytest.approx(oracle.high, abs=1e-12)
    assert math.isclose(found.value, right / n)
