"""The decoders, by name."""

from collections.abc import Mapping

from backbones.errors import RowcastError
from decoding.methods.ar import AR
from decoding.methods.jacobi import MCSJD, SJD
from decoding.methods.method import Method
from decoding.methods.ssd import SSD
from decoding.methods.ssd_exact import SSDExact
from decoding.options import HEADS, OPTIONS, parse_options
from heads.bank import HeadBank

METHODS = tuple(OPTIONS)


def build_method(name: str, options: Mapping[str, object], heads: HeadBank | None) -> Method:
    """Builds a decoder.

    Args:
        name: one of `METHODS`.
        options: its YAML group without `name`.
        heads: the draft heads, for a decoder in `HEADS`.

    Raises:
        RowcastError: if the name or an option is unknown or out of range, or the heads do not fit.
    """
    parsed = parse_options(name, options)
    if name in HEADS and heads is None:
        raise RowcastError(f"expected draft heads for decoder {name}, found none: pass heads=<bundle folder>")
    match name:
        case "ar":
            return AR()
        case "sjd":
            return SJD(parsed.window)
        case "mc_sjd":
            return MCSJD(parsed.window)
        case "ssd":
            assert heads is not None
            return SSD(parsed, heads)
        case _:
            assert heads is not None
            return SSDExact(parsed.window, heads)
