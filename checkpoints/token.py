"""The user's token of the hub: from the environment, so that no option, file or message ever holds one."""

import os
import re

from backbones.errors import RowcastError

VARIABLE = "HF_TOKEN"
_FORM = re.compile(r"hf_[A-Za-z0-9]{20,}")
"""How tokens look."""


def token_if_any() -> str | None:
    """The token, where there is one."""
    return os.environ.get(VARIABLE, "").strip() or None


def required_token() -> str:
    """The token.

    Raises:
        RowcastError: if there is none.
    """
    token = token_if_any()
    if token is None:
        raise RowcastError(
            f"expected a token with write access in the environment, found no {VARIABLE}: make one in the "
            f"settings of your account on the hub and set {VARIABLE}, or pass dry_run=true"
        )
    return token


def without_token(text: str) -> str:
    """The text with the token blotted out, should it be in there."""
    token = token_if_any()
    return text.replace(token, "***") if token else text


def holds_token(text: str) -> bool:
    """Whether the text holds the token, or what looks like one."""
    return without_token(text) != text or _FORM.search(text) is not None
