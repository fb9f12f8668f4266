"""Image sizes as users write them, and the token grids they mean."""

import re
from collections.abc import Mapping

from backbones.contract import Grid
from backbones.errors import RowcastError


def grid_of(size: str | None, default: str, grids: Mapping[str, Grid], model: str) -> Grid:
    """The grid of an image size.

    Args:
        size: `WIDTHxHEIGHT` in pixels; none takes `default`.
        default: one of `grids`.
        grids: the sizes that the model paints, and their grids.
        model: its name, for the message.

    Raises:
        RowcastError: for a size that is not among them, with the list.
    """
    wanted = default if size is None else size.lower().replace(" ", "")
    if wanted not in grids:
        kind = "a size of" if re.fullmatch(r"[0-9]+x[0-9]+", wanted) else "WIDTHxHEIGHT, a size of"
        raise RowcastError(
            f"expected {kind} model {model}, found {size!r:.60}: pass model.size= one of {', '.join(grids)}"
        )
    return grids[wanted]
