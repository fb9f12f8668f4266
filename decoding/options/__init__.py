"""The options of every decoder: the YAML group `decoder` in typed form.

Without torch, so that a mistake on the command line is answered at once. The YAML files say what an option
does; here are its type, its bounds and its default.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backbones.errors import RowcastError
from backbones.rules import parse
from decoding.options.drafters import EagleOptions, MTPOptions, MTPStrictOptions
from decoding.options.jacobi import JacobiOptions
from decoding.options.spatial import PACOptions, PJDOptions, ZipAROptions
from decoding.options.ssd import SSDExactOptions, SSDOptions


@dataclass(frozen=True, kw_only=True)
class AROptions:
    """Plain autoregression has none."""


OPTIONS: dict[str, type] = {
    "ar": AROptions,
    "ssd": SSDOptions,
    "ssd_exact": SSDExactOptions,
    "jacobi": JacobiOptions,
    "sjd_pac": PACOptions,
    "zipar": ZipAROptions,
    "pjd": PJDOptions,
    "mtp": MTPOptions,
    "mtp_strict": MTPStrictOptions,
    "eagle": EagleOptions,
}
"""The options of each decoder by its name, without the name itself."""

HEADS: dict[str, str] = {
    "ssd": "ssd",
    "ssd_exact": "ssd",
    "mtp": "mtp",
    "mtp_strict": "mtp",
    "eagle": "eagle",
}
"""The kind of draft heads that a decoder needs; the others need none."""


def parse_options(name: str, options: Mapping[str, object]) -> Any:
    """The options of decoder `name`, as its YAML group has them without `name`.

    Raises:
        RowcastError: if the decoder or an option is unknown, of another type or out of range.
    """
    if name not in OPTIONS:
        raise RowcastError(f"expected a decoder out of {', '.join(OPTIONS)}, found {name}: set decoder=ssd")
    return parse(OPTIONS[name], options, "decoder")
