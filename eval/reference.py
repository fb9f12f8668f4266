"""The generation loop of the model's own library, as a rung of the ladder that speed-ups stand on."""

from collections.abc import Mapping

import torch

from backbones.contract import Sampling
from backbones.registry import family
from backbones.source import Source
from eval.bench import ReferenceLoop

LOOP = "transformers generate"


def reference_loop(
    model: Mapping[str, str | None], sampling: Sampling, device: torch.device
) -> ReferenceLoop | None:
    """Loads the model a second time, as its library has it; none where the library has no loop for it.

    Args:
        model: the options of the model, by name.
        sampling: as the decoders sample.
        device: where the decoders run.

    Raises:
        RowcastError: if the files cannot be loaded.
    """
    source = Source(**{name: value for name, value in model.items() if name != "device"})  # pyright: ignore
    load = getattr(family(source.name), "reference_loop", None)
    if load is None or source.is_random:
        return None
    return load(source, sampling, device)
