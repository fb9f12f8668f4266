"""The one exception of the project: a sentence for the user, never a traceback."""


class RowcastError(Exception):
    """Something the user can put right.

    The message is one line that says what was expected, what was found and what to do next.
    Entry points print it and exit with status 2.
    """


class NoRoomError(RowcastError):
    """Something does not fit into memory or onto a disk; the message has a change that does."""
