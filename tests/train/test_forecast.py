"""Would more data or more steps help? The forecasts against laws whose answer is known."""

import numpy as np
import pytest

from train.forecast import LEAST_IMAGES, LEAST_POINTS, Judged, data_gain, fit_curve

pytestmark = pytest.mark.unit

IMAGES = np.array([320.0, 640, 960, 1280])
LIMIT, DROP = 0.6, 0.25


def validations(rng, power, images=IMAGES, count=8):
    """Images of uneven difficulty on a curve, with the wobble of the steps and of single images."""
    curve = LIMIT - DROP * (images / images[0]) ** -power
    hard, wobble = rng.normal(0, 0.08, count), rng.normal(0, 0.003, (len(images), 1))
    return curve[:, None] + hard + wobble + rng.normal(0, 0.006, (len(images), count))


@pytest.mark.parametrize("power", [0.3, 0.6, 1.2])
def test_the_interval_of_the_gain_covers_the_true_one(power):
    true = DROP * (IMAGES[-1] / IMAGES[0]) ** -power * (1 - 2**-power)
    rng = np.random.default_rng(0)
    gains = [fit_curve(IMAGES, validations(rng, power), seed).gain for seed in range(20)]
    covered = sum(gain.low <= true <= gain.high for gain in gains)
    assert covered >= 17
    assert np.mean([gain.high - gain.low for gain in gains]) < 0.05, "wide enough to cover anything"


def test_a_run_that_has_saturated_gains_nothing_more():
    flat = np.full((4, 8), 0.5) + np.random.default_rng(1).normal(0, 0.002, (4, 8))
    gain = fit_curve(IMAGES, flat).gain
    assert gain.low == 0
    assert gain.value < 0.005


def test_a_run_that_gets_worse_is_given_no_falling_curve():
    falling = np.linspace(0.5, 0.45, 4)[:, None] + np.zeros(8)
    curve = fit_curve(IMAGES, falling)
    assert np.all(np.diff(curve.value) > -1e-9)
    assert curve.residual > 0.01


def test_too_little_gives_no_number():
    rng = np.random.default_rng(0)
    assert fit_curve(IMAGES[: LEAST_POINTS - 1], validations(rng, 0.6)[: LEAST_POINTS - 1]) is None
    few = validations(rng, 0.6, count=LEAST_IMAGES - 1)
    assert fit_curve(IMAGES, few) is None
    side = Judged(now=few[0], untrained=few[0])
    assert data_gain(side, side) is None


def test_the_curve_goes_through_the_validations_and_on_to_twice_as_many_images():
    curve = fit_curve(IMAGES, validations(np.random.default_rng(3), 0.6))
    assert (curve.images[0], curve.images[-1]) == pytest.approx((320, 2560))
    assert all(
        low <= value <= high for low, value, high in zip(curve.low, curve.value, curve.high, strict=True)
    )
    assert curve.high[-1] - curve.low[-1] > curve.high[20] - curve.low[20], "what lies ahead is less sure"


def test_twice_the_data_bring_a_quarter_of_the_gap():
    """Least squares, whose error on new data is known: sums over many small fits give gap and true gain."""
    rng, width, count = np.random.default_rng(0), 20, 200

    def errors(images, fits=300):
        """Mean squared errors of `fits` regressions: on their own points, and on new ones."""
        x, new = rng.normal(size=(2, fits, images, width))
        y, new_y = x.sum(-1) + rng.normal(size=(fits, images)), new.sum(-1) + rng.normal(size=(fits, images))
        weights = np.linalg.solve(x.mT @ x, x.mT @ y[..., None])
        own = ((x @ weights)[..., 0] - y) ** 2
        return own.mean(1), (((new @ weights)[..., 0] - new_y) ** 2).mean(1)

    (own, held_out), (_, doubled) = errors(count), errors(2 * count)
    same = np.zeros(len(own))
    _, gain = data_gain(Judged(now=-held_out, untrained=same), Judged(now=-own, untrained=same))
    true = held_out.mean() - doubled.mean()
    assert gain.value == pytest.approx(true, rel=0.2)
    assert gain.high - gain.low < true / 2


def test_the_difficulty_of_the_images_is_taken_out():
    """Held-out images that happen to be hard look like a gap, until what untrained heads get is known."""
    rng = np.random.default_rng(2)
    easy, hard = rng.normal(0.30, 0.05, 8), rng.normal(0.24, 0.05, 8)
    seen, held_out = (0.2 + side + rng.normal(0, 0.004, 8) for side in (easy, hard))
    flat = np.full(8, 0.3)
    plain, _ = data_gain(Judged(now=held_out, untrained=flat), Judged(now=seen, untrained=flat))
    gap, gain = data_gain(Judged(now=held_out, untrained=hard), Judged(now=seen, untrained=easy))
    assert plain.value > 0.02
    assert gap.low < 0 < gap.high
    assert gap.high - gap.low < (plain.high - plain.low) / 4
    assert 0 <= gain.low <= gain.value <= gain.high < 0.005


def test_the_same_validations_give_the_same_forecast():
    accepted = validations(np.random.default_rng(5), 0.6)
    assert fit_curve(IMAGES, accepted) == fit_curve(IMAGES, accepted)
