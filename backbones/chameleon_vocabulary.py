"""Chameleon's vocabulary: which of its 65536 names are image codes, and which mark the parts of a sequence.

Words, image codes and marks share one table of ids, and everything is looked up by name. `config.json` holds
the whole map; the tokenizer must agree with it.
"""

import re
from collections.abc import Mapping

from backbones.errors import RowcastError

BOS, PAD = "<s>", "<pad>"
BEGIN_IMAGE = "<racm3:break>"
END_TURN = "<reserved08706>"
ROW_END = "<reserved08799>"
"""Lumina-mGPT's; Chameleon and Anole have none."""

_DIGITS, _LETTERS = "0123456789", "ABCDEFGHIJ"
_CODE = re.compile(f"IMGIMG([{_LETTERS}]+)Z")


def size_name(cells: int) -> str:
    """Lumina-mGPT's token for a side of that many 32-pixel cells."""
    return f"<reserved{8800 + cells:05d}>"


def code_name(code: int) -> str:
    """The token of an image code: its decimal digits as letters, so that 53 is IMGIMGFDZ."""
    return "IMGIMG" + str(code).translate(str.maketrans(_DIGITS, _LETTERS)) + "Z"


def image_ids(vocabulary: Mapping[str, int]) -> list[int]:
    """Token ids of the image codes 0..V-1, in the order of the codes.

    Raises:
        RowcastError: if there are none, or one between is missing.
    """
    codes: dict[int, int] = {}
    for name, token in vocabulary.items():
        if match := _CODE.fullmatch(name):
            codes[int(match[1].translate(str.maketrans(_LETTERS, _DIGITS)))] = token
    missing = min(set(range(len(codes) or 1)) - codes.keys(), default=None)
    if missing is not None:
        raise RowcastError(
            f"expected an image code {missing} ({code_name(missing)}) in the vocabulary_map of config.json, "
            f"found {len(codes)} others: use the config.json that was published with the weights"
        )
    return [codes[code] for code in range(len(codes))]


def published_vocabulary() -> dict[str, int]:
    """Marks and image codes of the published models, without words."""
    marks = {BOS: 0, PAD: 1, "</s>": 2, "<unk>": 3, "<eoss>": 8196, BEGIN_IMAGE: 8197, END_TURN: 8710}
    sizes = {size_name(cells): 8804 + cells for cells in range(1, 65)}
    return marks | {ROW_END: 8803} | sizes | {code_name(code): 4 + code for code in range(8192)}
