"""Decoder options by name, for jobs that run several decoders (the validation of training, the benchmark)."""

from typing import Any

from omegaconf import DictConfig, OmegaConf

from conf.check import FOLDER, checked_decoder, require_choice


def decoder_options(name: str) -> dict[str, Any]:
    """The options in `decoder/<name>.yaml`, checked; `name` among them is the method's.

    Raises:
        RowcastError: if there is no such file, listing those there are.
    """
    require_choice("decoder", name)
    config = OmegaConf.load(FOLDER / "decoder" / f"{name}.yaml")
    assert isinstance(config, DictConfig)
    return checked_decoder(config)
