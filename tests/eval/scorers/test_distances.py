"""FID and KID: equal to torchmetrics on a small random network, closed forms, bias where it belongs."""

import numpy as np
import pytest
import torch
from scipy import linalg
from torch import nn
from torchmetrics.image.fid import FrechetInceptionDistance
from torchmetrics.image.kid import KernelInceptionDistance

from backbones.errors import RowcastError
from eval.scorers.distances import frechet_inception_distance, kernel_inception_distance, squared_mmd

pytestmark = pytest.mark.unit


class Small(nn.Module):
    """A random network from bytes to six features, in the form that torchmetrics takes."""

    num_features = 6

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Conv2d(3, 6, 4, 4), nn.ReLU(), nn.Conv2d(6, 6, 3))

    @torch.no_grad()
    def forward(self, images):
        return self.layers(images.float() / 255).amax((2, 3)) * 3


@pytest.fixture(scope="module")
def sets():
    generator = torch.Generator().manual_seed(1)
    real = torch.randint(0, 256, (40, 3, 24, 24), generator=generator, dtype=torch.uint8)
    fake = (torch.randint(0, 200, (30, 3, 24, 24), generator=generator) ** 2 // 200).to(torch.uint8)
    return real, fake


def test_fid_equals_torchmetrics(sets):
    network = Small()
    oracle = FrechetInceptionDistance(feature=network, input_img_size=(3, 24, 24)).double()
    network.float()
    oracle.update(sets[0], real=True)
    oracle.update(sets[1], real=False)
    ours = frechet_inception_distance(network(sets[0]), network(sets[1]))
    assert ours > 0.01
    assert ours == pytest.approx(float(oracle.compute()), rel=1e-5)


def test_kid_of_whole_sets_equals_torchmetrics(sets):
    real, fake = sets[0][:30], sets[1]
    network = Small()
    oracle = KernelInceptionDistance(feature=network, subsets=1, subset_size=30)
    oracle.update(real, real=True)
    oracle.update(fake, real=False)
    ours, spread = kernel_inception_distance(network(real), network(fake), subsets=3)
    assert ours == pytest.approx(float(oracle.compute()[0]), rel=1e-4)
    assert spread == pytest.approx(0, abs=1e-12)


def test_fid_equals_the_classic_formula():
    a, b = torch.randn(50, 5), torch.randn(60, 5) * 2 + 1
    mean_a, mean_b = a.double().mean(0).numpy(), b.double().mean(0).numpy()
    cov_a, cov_b = np.cov(a.double().numpy(), rowvar=False), np.cov(b.double().numpy(), rowvar=False)
    root = linalg.sqrtm(cov_a @ cov_b).real
    classic = ((mean_a - mean_b) ** 2).sum() + np.trace(cov_a + cov_b - 2 * root)
    assert frechet_inception_distance(a, b) == pytest.approx(classic, rel=1e-6)


def test_mmd_against_loops():
    a, b = torch.randn(4, 3).double(), torch.randn(5, 3).double()

    def kernel(x, y):
        return (float(x @ y) / 3 + 1) ** 3

    within = sum(kernel(a[i], a[j]) for i in range(4) for j in range(4) if i != j) / 12
    within += sum(kernel(b[i], b[j]) for i in range(5) for j in range(5) if i != j) / 20
    between = sum(kernel(x, y) for x in a for y in b) / 20
    assert squared_mmd(a, b) == pytest.approx(within - 2 * between)


def test_kid_is_unbiased_where_fid_grows():
    generator = torch.Generator().manual_seed(0)
    pairs = [torch.randn(2, 12, 8, generator=generator) for _ in range(300)]
    kids = torch.tensor([squared_mmd(*pair.double()) for pair in pairs])
    assert abs(kids.mean()) < 3 * kids.std() / 300**0.5
    fids = torch.tensor([frechet_inception_distance(*pair) for pair in pairs[:50]])
    assert fids.mean() > 3, "of one law, and far from 0 at 12 images"


def test_subsets_are_seeded_and_drawn_without_repeats():
    a, b = torch.randn(20, 4), torch.randn(30, 4)
    first = kernel_inception_distance(a, b, subsets=5, subset=10)
    assert first == kernel_inception_distance(a, b, subsets=5, subset=10)
    assert first != kernel_inception_distance(a, b, subsets=5, subset=10, seed=1)
    assert first[1] > 0


def test_one_image_is_refused():
    with pytest.raises(RowcastError, match="at least 2 judged images, found 1"):
        frechet_inception_distance(torch.zeros(2, 4), torch.zeros(1, 4))
