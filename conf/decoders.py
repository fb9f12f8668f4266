"""Decoder options by name, for jobs that run several decoders (the validation of training, the benchmark)."""

from typing import Any

from omegaconf import OmegaConf

from conf.check import FOLDER, checked_choice, choices, require_choice
from decoding.options import OPTIONS

ALL = "all"


def decoder_names(wanted: str | list[str]) -> list[str]:
    """The decoders that `benchmark.decoders` means: `all`, one name or several; the baseline comes first."""
    if wanted == ALL:
        return ["ar", *(name for name in choices("decoder") if name != "ar")]
    return [wanted] if isinstance(wanted, str) else list(wanted)


def decoder_options(name: str) -> dict[str, Any]:
    """The options in `decoder/<name>.yaml`, checked; `name` among them is the method's.

    Raises:
        RowcastError: if there is no such file, listing those there are.
    """
    require_choice("decoder", name)
    return checked_choice(OmegaConf.load(FOLDER / "decoder" / f"{name}.yaml"), OPTIONS, "decoder")
