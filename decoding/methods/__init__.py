"""The decoders, by name."""

from collections.abc import Mapping

from backbones.errors import RowcastError
from decoding.methods.ar import AR
from decoding.methods.jacobi import MCSJD, SJD
from decoding.methods.method import Method
from decoding.methods.options import parse_ssd, parse_window, refuse_options
from decoding.methods.ssd import SSD
from decoding.methods.ssd_exact import SSDExact
from heads.bank import HeadBank

METHODS = ("ar", "ssd", "ssd_exact", "sjd", "mc_sjd")
JACOBI = {"sjd": SJD, "mc_sjd": MCSJD}


def build_method(name: str, options: Mapping[str, object], heads: HeadBank | None) -> Method:
    """Builds a decoder.

    Args:
        name: one of `METHODS`.
        options: its YAML group without `name`.
        heads: the draft heads; `ar`, `sjd` and `mc_sjd` need none.

    Raises:
        RowcastError: if the name or an option is unknown or out of range, or the heads do not fit.
    """
    if name == "ar":
        refuse_options(name, options)
        return AR()
    if name in JACOBI:
        return JACOBI[name](parse_window(options).window)
    if name not in METHODS:
        raise RowcastError(
            f"expected a decoder out of {', '.join(METHODS)}, found {name}: set decoder={METHODS[1]}"
        )
    if heads is None:
        raise RowcastError(f"expected draft heads for decoder {name}, found none: pass heads=<bundle folder>")
    if name == "ssd":
        return SSD(parse_ssd(options, heads.horizontal), heads)
    return SSDExact(parse_window(options).window, heads)
