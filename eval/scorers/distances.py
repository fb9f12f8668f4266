"""Distances between two sets of image features, in fp64: FID and KID.

FID is biased by the number of images and must not be compared at different numbers; KID is unbiased.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from backbones.errors import RowcastError

SUBSETS, SUBSET = 100, 1000
"""KID is averaged over so many draws of so many images of each set, or of all where there are fewer."""


def frechet_inception_distance(reference: Float[Tensor, "M F"], samples: Float[Tensor, "N F"]) -> float:
    """FID (arXiv 1706.08500): squared Fréchet distance of two Gaussians, covariances unbiased.

    With centred sets A and B (scaled so that their covariances are A'A and B'B), tr((A'A B'B)^(1/2)) is the
    sum of the singular values of A B': no root of a covariance is taken, which few images leave singular.

    Raises:
        RowcastError: if a set holds fewer than two images.
    """
    _require(reference, samples)
    (mean_a, a), (mean_b, b) = (_centred(features.double()) for features in (reference, samples))
    common = torch.linalg.svdvals(_triangle(a) @ _triangle(b).T).sum()
    distance = (mean_a - mean_b).square().sum() + a.square().sum() + b.square().sum() - 2 * common
    return float(distance.clamp(min=0))


def kernel_inception_distance(
    reference: Float[Tensor, "M F"],
    samples: Float[Tensor, "N F"],
    *,
    subsets: int = SUBSETS,
    subset: int = SUBSET,
    seed: int = 0,
) -> tuple[float, float]:
    """KID (arXiv 1801.01401): mean and standard deviation over subsets drawn without repeats.

    Args:
        reference: features of the set that is judged against.
        samples: features of the judged set.
        subsets: how many draws.
        subset: images of each set in a draw; at most the smaller set.
        seed: of the draws.

    Raises:
        RowcastError: if a set holds fewer than two images.
    """
    _require(reference, samples)
    generator = torch.Generator().manual_seed(seed)
    size = min(subset, len(reference), len(samples))
    values = []
    for _ in range(subsets):
        a = reference[torch.randperm(len(reference), generator=generator)[:size]]
        b = samples[torch.randperm(len(samples), generator=generator)[:size]]
        values.append(squared_mmd(a.double(), b.double()))
    drawn = torch.tensor(values, dtype=torch.float64)
    return float(drawn.mean()), float(drawn.std(correction=0))


def squared_mmd(a: Float[Tensor, "M F"], b: Float[Tensor, "N F"]) -> float:
    """Unbiased estimate of the squared maximum mean discrepancy under the kernel (x.y / F + 1)^3."""

    def within(kernel: Float[Tensor, "K K"]) -> Tensor:
        return (kernel.sum() - kernel.trace()) / (len(kernel) * (len(kernel) - 1))

    return float(within(_kernel(a, a)) + within(_kernel(b, b)) - 2 * _kernel(a, b).mean())


def _centred(features: Float[Tensor, "N F"]) -> tuple[Float[Tensor, " F"], Float[Tensor, "N F"]]:
    """The mean, and what is left of each row, scaled so that its square sums are covariances."""
    mean = features.mean(0)
    return mean, (features - mean) / (len(features) - 1) ** 0.5


def _triangle(rows: Float[Tensor, "N F"]) -> Float[Tensor, "K F"]:
    """As few rows as can be, with the same products of columns."""
    return torch.linalg.qr(rows, mode="r").R if len(rows) > rows.shape[1] else rows


def _kernel(a: Float[Tensor, "M F"], b: Float[Tensor, "N F"]) -> Float[Tensor, "M N"]:
    return (a @ b.T / a.shape[1] + 1) ** 3


def _require(reference: Tensor, samples: Tensor) -> None:
    for name, features in (("reference", reference), ("judged", samples)):
        if len(features) < 2:
            raise RowcastError(f"expected at least 2 {name} images, found {len(features)}: paint or add more")
