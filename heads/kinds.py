"""Draft heads by the name of their kind."""

from typing import Any

from heads.bank import HeadBank, MTPBank
from heads.contract import DraftHeads
from heads.eagle import EagleDrafter
from heads.options import HEADS

KINDS: dict[str, type[DraftHeads]] = {kind.kind: kind for kind in (HeadBank, MTPBank, EagleDrafter)}


def build_heads(kind: str, width: int, options: Any) -> DraftHeads:
    """New draft heads, with first weights by torch's global generator.

    Args:
        kind: a name in `heads.options.HEADS`.
        width: D, the width of the backbone's states.
        options: an instance of that kind's class there.

    Raises:
        RowcastError: if options and width do not go together.
    """
    assert KINDS.keys() == HEADS.keys()
    return KINDS[kind](width, **vars(options))
