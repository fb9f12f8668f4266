"""The decoders, by name."""

from collections.abc import Callable, Mapping
from typing import Any

from backbones.errors import RowcastError
from decoding.methods.ar import AR
from decoding.methods.eagle import Eagle
from decoding.methods.jacobi import Jacobi
from decoding.methods.method import Method
from decoding.methods.mtp import MTP, MTPStrict
from decoding.methods.pac import SJDPAC
from decoding.methods.pjd import PJD
from decoding.methods.ssd import SSD
from decoding.methods.ssd_exact import SSDExact
from decoding.methods.zipar import ZipAR
from decoding.options import HEADS, OPTIONS, parse_options
from heads.contract import DraftHeads

METHODS = tuple(OPTIONS)
_ALONE: dict[str, Callable[[Any], Method]] = {
    "ar": lambda _: AR(),
    "jacobi": Jacobi,
    "sjd_pac": SJDPAC,
    "pjd": PJD,
    "zipar": ZipAR,
}
_DRAFTED: dict[str, Callable[[Any, Any], Method]] = {
    "ssd": SSD,
    "ssd_exact": SSDExact,
    "mtp": MTP,
    "mtp_strict": MTPStrict,
    "eagle": Eagle,
}
"""From options, and heads of the kind in `HEADS`, to the decoder."""


def build_method(name: str, options: Mapping[str, object], heads: DraftHeads | None) -> Method:
    """Builds a decoder.

    Args:
        name: one of `METHODS`.
        options: its YAML group without `name`.
        heads: the draft heads, for a decoder in `HEADS`.

    Raises:
        RowcastError: if the name or an option is unknown or out of range, or the heads do not fit.
    """
    parsed = parse_options(name, options)
    if name in HEADS:
        _require_heads(name, HEADS[name], heads)
        return _DRAFTED[name](parsed, heads)
    return _ALONE[name](parsed)


def _require_heads(name: str, kind: str, heads: DraftHeads | None) -> None:
    """Refuses draft heads that the decoder cannot draft with.

    Raises:
        RowcastError: saying which heads it needs, and how to train them.
    """
    found = "none" if heads is None else f"{heads.kind} heads"
    if heads is None or heads.kind != kind:
        raise RowcastError(
            f"expected draft heads for decoder {name}, found {found}: pass heads=<bundle folder> of "
            f"`python -m train heads={kind}`"
        )
