"""Prompts from a command line or a text file."""

from pathlib import Path

from backbones.errors import RowcastError


def read_prompts(path: str | Path) -> list[str]:
    """Reads a UTF-8 text file of prompts, one a line; blank lines are left out.

    Raises:
        RowcastError: if the file is missing, unreadable, not UTF-8 text, or holds no prompt.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RowcastError(
            f"expected a text file of prompts at {path}, found: {error.strerror}; correct the path"
        ) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RowcastError(
            f"expected UTF-8 text in {path}, found byte 0x{content[error.start]:02x} in line {line}: "
            f"convert it with iconv -f <its encoding> -t utf-8"
        ) from error
    prompts = [line.strip() for line in text.splitlines() if line.strip()]
    if not prompts:
        raise RowcastError(f"expected at least one prompt in {path}, found none: write one a line")
    return prompts


def resolve_prompts(value: object) -> list[str]:
    """The prompts that an option means: a text, the path of a text file, or a list of either.

    A text is a path if a file is there, or if it ends in `.txt`; a whole number is a text too.

    Raises:
        RowcastError: if there is no prompt in it, or `read_prompts` refuses the file.
    """
    texts: list[str] = []
    for given in value if isinstance(value, list | tuple) else [value]:
        # A command line makes a number of the class that some models take for a prompt.
        text = str(given) if type(given) is int else given
        if not isinstance(text, str) or not text.strip():
            raise RowcastError(f'expected prompts to be texts, found {text!r}: write prompt="a red sneaker"')
        texts += read_prompts(text) if _is_file(text) else [text]
    if not texts:
        raise RowcastError('expected at least one prompt, found none: write prompt="a red sneaker"')
    return texts


def _is_file(text: str) -> bool:
    try:
        return text.endswith(".txt") or Path(text).is_file()
    except OSError:  # longer than a file name may be
        return False
