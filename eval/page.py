"""The report's page: one self-contained HTML file, in light or dark as the reader's system is."""

from collections.abc import Sequence
from html import escape

from eval.style import STYLE


def page(title: str, body: Sequence[str]) -> str:
    """The whole file; nothing in it is fetched from elsewhere, and the page forbids it."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def section(title: str, note: str, *content: str) -> str:
    """A titled part of the page."""
    return (
        f'<section>\n<h2>{escape(title)}</h2>\n<p class="soft">{escape(note)}</p>\n'
        + "\n".join(content)
        + "\n</section>"
    )


def card(value: str, meaning: str) -> str:
    """A headline figure."""
    return f'<div class="card"><b>{escape(value)}</b><span>{escape(meaning)}</span></div>'


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table of text, or of cells that are HTML already (see `Markup`).

    The first `words` columns are words and stand to the left; the others are figures.
    """
    head = "".join(f"<th>{_cell(cell)}</th>" for cell in heading)
    lines = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    content = f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody>"
    return f'<div class="scroll"><table class="words{words}">{content}</table></div>'


class Markup(str):
    """HTML that was escaped where it was made; every other string is escaped when it is placed."""

    __slots__ = ()


def tag(law: str) -> Markup:
    """A decoder's law as a coloured tag."""
    return Markup(f'<span class="tag {escape(law)}">{escape(law)}</span>')


def tagged(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Rows whose second cell is a decoder's law, shown as a tag."""
    return [[row[0], tag(row[1]), *row[2:]] for row in rows]


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """A list of names and values."""
    return (
        "<dl>" + "".join(f"<dt>{_cell(name)}</dt><dd>{_cell(value)}</dd>" for name, value in pairs) + "</dl>"
    )


def _cell(content: str) -> str:
    return content if isinstance(content, Markup) else escape(content)
