"""The decoders, by name."""

from collections.abc import Mapping

from backbones.errors import RowcastError
from decoding.methods.ar import AR
from decoding.methods.method import Method
from decoding.methods.options import parse_ssd, refuse_options
from decoding.methods.ssd import SSD
from heads.bank import HeadBank

METHODS = ("ar", "ssd")


def build_method(name: str, options: Mapping[str, object], heads: HeadBank | None) -> Method:
    """Builds a decoder.

    Args:
        name: one of `METHODS`.
        options: its YAML group without `name`.
        heads: the draft heads; `ar` needs none.

    Raises:
        RowcastError: if the name or an option is unknown or out of range, or the heads do not fit.
    """
    if name == "ar":
        refuse_options(name, options)
        return AR()
    if name == "ssd":
        parsed = parse_ssd(options)
        if heads is None:
            raise RowcastError("expected draft heads for decoder ssd, found none: pass heads=<bundle folder>")
        return SSD(parsed, heads)
    raise RowcastError(
        f"expected a decoder out of {', '.join(METHODS)}, found {name}: set decoder={METHODS[1]}"
    )
