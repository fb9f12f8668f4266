"""Caption cleaning as DeepFloyd IF introduced it: what LlamaGen's captions went through before the encoder.

The rules were made for alt texts from the web (addresses, file names, article numbers, shop talk). Every
detail of the original is kept, odd ones too, because the model was trained on what they leave. A caption
goes through twice: entities and percent signs can hide markup from the first pass.
"""

import html
import re
import warnings
from urllib.parse import unquote_plus

import ftfy
from bs4 import BeautifulSoup, MarkupResemblesLocatorWarning, ParserRejectedMarkup, XMLParsedAsHTMLWarning

from backbones.errors import RowcastError

Rule = tuple[re.Pattern[str], str]

_DASHES = (
    "\u002d\u058a\u05be\u1400\u1806\u2010-\u2015\u2e17\u2e1a\u2e3a\u2e3b\u2e40"
    "\u301c\u3030\u30a0\ufe31\ufe32\ufe58\ufe63\uff0d"
)
_FILES = "png|jpg|jpeg|bmp|webp|eps|pdf|apk|mp4"
_DOMAIN = r"[a-z0-9.\-]+\.(?:com|co|ru|net|org|edu|gov|it)[\w/-]*\b/?(?!@)"


def _rules(*pairs: tuple[str, str]) -> list[Rule]:
    return [(re.compile(pattern), replacement) for pattern, replacement in pairs]


_BEFORE_MARKUP = _rules(
    ("<person>", "person"),
    (rf"\b(?:https?:(?:/{{1,3}}|[a-z0-9%])|{_DOMAIN})", ""),
    (rf"\b(?:www:(?:/{{1,3}}|[a-z0-9%])|{_DOMAIN})", ""),
)
_SYMBOLS = _rules(
    (r"@\w+", ""),  # user names
    ("[\u31c0-\u9fff]+", ""),  # CJK ideographs and what stands before them in Unicode
    (f"[{_DASHES}]+", "-"),
    ("[`\u00b4«»“”¨]", '"'),
    ("[\u2018\u2019]", "'"),
    ("&quot;?", ""),
    ("&amp", ""),
    (r"\d{1,3}(?:\.\d{1,3}){3}", " "),  # IP addresses
    (r"\d:\d\d\s+$", ""),
    (r"\\n", " "),
    (r"#\d{1,3}\b", ""),
    (r"#\d{5,}\b", ""),
    (r"\b\d{6,}\b", ""),
    (rf"\S+\.(?:{_FILES})", ""),
    ("[\"']{2,}", '"'),
    (r"\.{2,}", " "),
    (r"[#®•©™&@·º½¾¿¡§~()\[\]{}|\\/*]+", " "),
    (r"\s+\.\s+", " "),
)
_JOINTS = re.compile("[-_]")
_WORDS = _rules(
    (r"\b[a-zA-Z]{1,3}\d{3,15}\b", ""),  # article numbers, here and in the next two
    (r"\b[a-zA-Z]+\d+[a-zA-Z]+\b", ""),
    (r"\b\d+[a-zA-Z]+\d+\b", ""),
    (r"(?:worldwide\s+)?(?:free\s+)?shipping", ""),
    (r"(?:free\s)?download(?:\sfree)?", ""),
    (r"\bclick\b\s(?:for|on)\s\w+", ""),
    (rf"\b(?:{_FILES})(?:\simages?)?", ""),
    (r"\bpage\s+\d+\b", ""),
    (r"\b\d*[a-zA-Z]+\d+[a-zA-Z]+\d+[a-zA-Z\d]*\b", " "),
    (r"\b\d+\.?\d*[xх×]\d+\.?\d*\b", ""),  # sizes; the second x is Cyrillic  # noqa: RUF001
    (r"\b\s+:\s+", ": "),
    (r"(\D[,./])\b", r"\1 "),
    (r"\s+", " "),
    # The original forgets to trim here, so a space at an end shields what stands beside it.
    (r"^[\"']([\w\W]+)[\"']$", r"\1"),
    (r"^['_,\-:;]", ""),
    (r"['_,\-:+]$", ""),
    (r"^\.\S+$", ""),
)


def clean(caption: str) -> str:
    """The caption as the encoder reads it.

    Raises:
        RowcastError: if it holds broken markup, or nothing that the cleaning leaves.
    """
    try:
        cleaned = _pass(_pass(caption))
    except (ParserRejectedMarkup, UnicodeEncodeError) as error:
        raise RowcastError(
            f"expected a caption in plain words, found broken markup in {caption[:80]!r}: remove it"
        ) from error
    if not cleaned:
        raise RowcastError(
            f"expected words, found {caption[:80]!r}, of which the cleaning leaves nothing: say what to paint"
        )
    return cleaned


def _pass(text: str) -> str:
    text = _apply(_BEFORE_MARKUP, unquote_plus(text).strip().lower())
    with warnings.catch_warnings():
        for guess in (MarkupResemblesLocatorWarning, XMLParsedAsHTMLWarning):
            warnings.simplefilter("ignore", guess)
        text = BeautifulSoup(text, "html.parser").text
    text = _apply(_SYMBOLS, text)
    if len(_JOINTS.findall(text)) > 3:  # this-is-my-cute-cat
        text = _JOINTS.sub(" ", text)
    text = html.unescape(html.unescape(ftfy.fix_text(text))).strip()
    return _apply(_WORDS, text).strip()


def _apply(rules: list[Rule], text: str) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text
