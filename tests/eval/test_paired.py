"""Paired differences against full enumeration, power, closed forms and coverage."""

import itertools

import numpy as np
import pytest
from scipy import stats

from eval.paired import (
    detectable,
    exceeds,
    groups_of,
    holm,
    paired_delta,
    standard_error,
    stratified_interval,
    stratified_means,
    tost,
    weights_of,
)

pytestmark = pytest.mark.unit


def test_bootstrap_within_strata_matches_the_enumeration_of_all_resamples():
    """Of each stratum's resampled mean, the deviation is scaled by sqrt(n / (n - 1))."""

    def means(values):
        scale = np.sqrt(len(values) / (len(values) - 1))
        draws = itertools.product(values, repeat=len(values))
        return [np.mean(values) + scale * (np.mean(draw) - np.mean(values)) for draw in draws]

    every = [0.6 * one + 0.4 * two for one in means([0.0, 1.0, 5.0]) for two in means([10.0, 12.0])]
    found = paired_delta([0.0, 10.0, 1.0, 12.0, 5.0], ["a", "b", "a", "b", "a"], draws=40_000)
    low, high = np.quantile(every, [0.025, 0.975])
    assert found.value == pytest.approx(28 / 5)
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.3)
    # Unstratified, the gap between the strata would be noise.
    mixed = paired_delta([0.0, 10.0, 1.0, 12.0, 5.0], ["one"] * 5, draws=40_000)
    assert mixed.high - mixed.low > 1.5 * (found.high - found.low)


def test_balanced_strata_count_alike():
    values, strata = [1.0, 1.0, 1.0, 1.0, 4.0, 6.0], ["a"] * 4 + ["b"] * 2
    assert paired_delta(values, strata).value == pytest.approx(14 / 6)
    assert paired_delta(values, strata, balanced=True).value == pytest.approx((1 + 5) / 2)


def test_strata_of_one_are_taken_together():
    groups = groups_of(["a", "b", "a", "c", "d"])
    assert sorted(group.tolist() for group in groups) == [[0, 2], [1, 3, 4]]
    assert [group.tolist() for group in groups_of(["a", "a", "b"])] == [[0, 1, 2]]
    assert [group.tolist() for group in groups_of(["a"])] == [[0]]


def test_detectable_difference_is_found_in_four_of_five_runs():
    rng, error = np.random.default_rng(0), 0.3
    found = rng.normal(detectable(error), error, 20_000)
    assert (np.abs(found) > 1.96 * error).mean() == pytest.approx(0.8, abs=0.01)


def test_standard_error_against_scipy_and_by_hand():
    data = np.random.default_rng(1).normal(size=30)
    groups = groups_of(["one"] * 30)
    assert standard_error(data, groups, weights_of(groups, False)) == pytest.approx(stats.sem(data))
    split = groups_of(["a"] * 10 + ["b"] * 20)
    by_hand = np.sqrt((1 / 3) ** 2 * data[:10].var(ddof=1) / 10 + (2 / 3) ** 2 * data[10:].var(ddof=1) / 20)
    assert standard_error(data, split, weights_of(split, False)) == pytest.approx(by_hand)


@pytest.mark.parametrize("shift", [0.0, 0.12, 0.3])
def test_equivalence_is_the_90_percent_interval_inside_the_margin(shift):
    data = np.random.default_rng(2).normal(shift, 0.5, 100)
    groups = groups_of(["one"] * 100)
    means = stratified_means(data, groups, weights_of(groups, False), 4000, 0)
    low, high = np.quantile(means, [0.05, 0.95])
    assert (tost(means, 0.2) < 0.05) == (low > -0.2 and high < 0.2)
    # Near the textbook's t-tests.
    one = stats.ttest_1samp(data, -0.2, alternative="greater").pvalue
    other = stats.ttest_1samp(data, 0.2, alternative="less").pvalue
    assert tost(means, 0.2) == pytest.approx(max(one, other), abs=0.02)


def test_a_p_value_is_never_zero():
    assert exceeds(np.zeros(999), 1.0, above=True) == 1 / 1000


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm([]) == []


def test_one_prompt_has_a_difference_and_no_interval():
    found = paired_delta([0.5], ["a"], 0.1)
    assert (found.value, found.low, found.detectable, found.equivalent) == (0.5, None, None, None)


def test_zeros_and_ones_get_wilson_and_everything_else_a_bootstrap():
    sure = stratified_interval([1.0] * 20, ["a"] * 20)
    assert sure.low == pytest.approx(stats.binomtest(20, 20).proportion_ci(method="wilson").low)
    half = stratified_interval([0.5] * 20, ["a"] * 20)
    assert (half.low, half.high) == pytest.approx((0.5, 0.5))


def test_coverage_of_paired_stratified_intervals_and_of_equivalence():
    """200 runs of 60 prompts whose true difference is known; the margin's own test may err in 5 %."""
    rng, truth, strata = np.random.default_rng(3), 0.2, [str(index % 4) for index in range(60)]
    offsets = np.array([int(name) for name in strata]) * 2.0
    covered = wrongly_equal = 0
    for _ in range(200):
        difference = rng.normal(truth + offsets - offsets.mean(), 0.5)
        found = paired_delta(difference.tolist(), strata, margin=truth, draws=600)
        covered += found.low <= truth <= found.high
        wrongly_equal += found.equivalent
    assert 0.90 <= covered / 200 <= 0.985
    assert wrongly_equal / 200 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


def test_strata_of_two_are_not_overconfident():
    """12 strata of two prompts: without the correction about one in six intervals would miss the truth."""
    rng, strata, covered = np.random.default_rng(4), [str(index // 2) for index in range(24)], 0
    for _ in range(300):
        found = paired_delta(rng.normal(size=24).tolist(), strata, draws=500)
        covered += found.low <= 0 <= found.high
    assert covered / 300 > 0.91
