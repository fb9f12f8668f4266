"""What guards a look ahead: a defect of the forecast must never end a run that would have gone well."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from backbones.errors import RowcastError


@contextmanager
def foresight(instead: str) -> Iterator[None]:
    """Lets verdicts and mistakes of the user through; of anything else it warns, in one line, and goes on.

    Args:
        instead: what is done without the forecast.
    """
    try:
        yield
    except RowcastError:
        raise
    except Exception as error:  # whatever a forecast may trip over; the run itself has no part in it
        print(f"warning: what this takes is not foreseen ({reason(error)}): {instead}", file=sys.stderr)


def reason(error: Exception) -> str:
    """The kind of an error and its first line."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:100]}"
