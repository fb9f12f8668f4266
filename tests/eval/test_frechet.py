"""Fréchet distance: closed forms, a scipy oracle, and what it must not depend on."""

import pytest
import torch
from scipy import linalg

from backbones.errors import RowcastError
from eval.frechet import frechet_distance, gaussian_distance

pytestmark = pytest.mark.unit


def features(count, width, seed, scale=1.0, shift=0.0):
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(width, width, generator=torch.Generator().manual_seed(99))
    return torch.randn(count, width, generator=generator) @ mix * scale + shift


def test_diagonal_gaussians_in_closed_form():
    a, b = torch.tensor([1.0, 4.0, 9.0]).double(), torch.tensor([4.0, 1.0, 0.0]).double()
    shift = torch.tensor([1.0, 2.0, 0.0]).double()
    found = gaussian_distance(torch.zeros(3).double(), a.diag(), shift, b.diag())
    assert found == pytest.approx(1 + 4 + (1 - 2) ** 2 + (2 - 1) ** 2 + 3**2)


def test_full_covariances_against_scipy():
    a, b = features(60, 8, 0), features(60, 8, 1, scale=1.5, shift=0.3)
    covariance_a, covariance_b = torch.cov(a.T).double(), torch.cov(b.T).double()
    root = linalg.sqrtm(covariance_a.numpy() @ covariance_b.numpy()).real
    oracle = float((a.mean(0) - b.mean(0)).double().square().sum())
    oracle += float(covariance_a.trace() + covariance_b.trace()) - 2 * root.trace()
    assert frechet_distance(a, b) == pytest.approx(oracle, rel=1e-4)


def test_a_set_is_at_distance_zero_from_itself_and_from_its_shuffle():
    a = features(40, 100, 0)
    assert frechet_distance(a, a) == pytest.approx(0, abs=1e-6)
    assert frechet_distance(a, a[torch.randperm(40)]) == pytest.approx(0, abs=1e-6)


def test_a_pure_shift_is_its_squared_length():
    a = features(50, 6, 0)
    assert frechet_distance(a, a + 2.0) == pytest.approx(6 * 4.0, rel=1e-4)


def test_the_basis_is_the_references():
    reference = torch.zeros(30, 3)
    reference[:, 0] = torch.randn(30, generator=torch.Generator().manual_seed(0))
    samples = reference.clone()
    samples[:, 2] = 50.0
    assert frechet_distance(reference, samples, dimensions=1) == pytest.approx(0, abs=1e-6)
    assert frechet_distance(samples + reference.flip(1), samples, dimensions=3) > 0.1


def test_smaller_sets_of_one_law_look_further_apart():
    few, many = (frechet_distance(features(n, 32, 0), features(n, 32, 1)) for n in (40, 640))
    assert few > 3 * many


def test_one_image_is_refused():
    with pytest.raises(RowcastError, match="at least 2 images"):
        frechet_distance(torch.zeros(1, 4), torch.zeros(1, 4))
