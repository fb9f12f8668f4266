"""The pocket model behind the backbone contract: Janus, its own prompt format, weights that come along."""

from pathlib import Path

import torch

from backbones.contract import Sampling
from backbones.janus import Janus, load_janus
from backbones.pocket.prompt import prompt_ids

WEIGHTS = Path(__file__).parent / "weights"
SAMPLING = Sampling(guidance=2.0)


def load_pocket(
    path: str | Path | None = None, *, revision: str | None = None, dtype: torch.dtype = torch.float32
) -> Janus:
    """Loads the weights that come with the package, or other ones of the same format from `path`.

    Raises:
        RowcastError: if files are missing or broken.
    """
    return load_janus(
        path or WEIGHTS,
        revision=revision,
        dtype=dtype,
        name="pocket",
        sampling=SAMPLING,
        prompt_format=prompt_ids,
    )
