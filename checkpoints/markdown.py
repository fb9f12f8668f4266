"""Markdown in which names, prompts and values are text and nothing else."""

import re
from collections.abc import Iterator, Mapping, Sequence


def escape(text: str) -> str:
    """`text` on one line, with everything that Markdown or HTML would act on made literal."""
    return re.sub(r"([\\`*_{}\[\]<>()#!|~&$])", r"\\\1", " ".join(text.split()))


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table of plain texts: the first `words` columns to the left, the others, figures, to the right."""
    marks = ["---" if column < words else "--:" for column in range(len(heading))]
    lines = [[escape(cell) for cell in row] for row in (heading, *rows)]
    lines.insert(1, marks)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fact_table(values: Mapping[str, object]) -> str:
    """Names and values, those of nested mappings under dotted names."""
    rows = [[key, shown(value)] for key, value in flat(values)]
    return table(["", ""], rows, words=2) if rows else "None given."


def flat(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Nested mappings as dotted keys."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def shown(value: object) -> str:
    """A JSON value for people."""
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(shown(item) for item in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
