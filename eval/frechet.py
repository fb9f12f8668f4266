"""Fréchet distance between two sets of image features, as Gaussians, in fp64.

The distance grows as the sets shrink (the covariance of few samples is too thin), so two distances can
be compared only at equal set sizes, beside the distance of two sets that share one law.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from backbones.errors import RowcastError

DIMENSIONS = 64


def frechet_distance(
    reference: Float[Tensor, "N F"], samples: Float[Tensor, "N F"], dimensions: int = DIMENSIONS
) -> float:
    """Squared Fréchet distance |m1-m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)), as in FID (Heusel et al. 2017).

    Both sets are first projected on the leading principal directions of `reference` alone, so that the
    space does not depend on what is judged.

    Args:
        reference: features of the set that is judged against.
        samples: features of the judged set; as many as in `reference`.
        dimensions: principal directions kept; fewer where the reference spans fewer.

    Raises:
        RowcastError: if the sets hold fewer than two images.
    """
    if len(reference) < 2:
        raise RowcastError(
            f"expected at least 2 images for a Fréchet distance, found {len(reference)}: "
            "raise benchmark.quality_images"
        )
    basis = _principal_directions(reference.double(), dimensions)
    mean_a, covariance_a = _gaussian(reference.double() @ basis)
    mean_b, covariance_b = _gaussian(samples.double() @ basis)
    return gaussian_distance(mean_a, covariance_a, mean_b, covariance_b)


def gaussian_distance(
    mean_a: Float[Tensor, " F"],
    covariance_a: Float[Tensor, "F F"],
    mean_b: Float[Tensor, " F"],
    covariance_b: Float[Tensor, "F F"],
) -> float:
    """Squared Fréchet distance of two Gaussians.

    tr((Sa Sb)^(1/2)) is the trace of the square root of the symmetric Sa^(1/2) Sb Sa^(1/2), which needs
    symmetric eigenvalues only and stays real for singular covariances.
    """
    values, vectors = torch.linalg.eigh(covariance_a)
    root = vectors * values.clamp(min=0).sqrt() @ vectors.T
    inner = torch.linalg.eigvalsh(root @ covariance_b @ root).clamp(min=0)
    spread = covariance_a.trace() + covariance_b.trace() - 2 * inner.sqrt().sum()
    return float((mean_a - mean_b).square().sum() + spread.clamp(min=0))


def _gaussian(points: Float[Tensor, "N F"]) -> tuple[Float[Tensor, " F"], Float[Tensor, "F F"]]:
    mean = points.mean(0)
    centred = points - mean
    return mean, centred.T @ centred / (len(points) - 1)


def _principal_directions(points: Float[Tensor, "N F"], dimensions: int) -> Float[Tensor, "F E"]:
    _, vectors = torch.linalg.eigh(_gaussian(points)[1])
    kept = min(dimensions, points.shape[1], len(points) - 1)
    return vectors[:, -kept:]
