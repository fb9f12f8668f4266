"""The published files of prompt sets, read into one form. Every mistake names its file and line."""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from backbones.errors import RowcastError
from eval.prompt_sets.prompt import Prompt

PARTI_COLUMNS = ("Prompt", "Category", "Challenge", "Note")
DPG_COLUMNS = ("item_id", "text")


def read_geneval(path: Path, name: str) -> list[Prompt]:
    """GenEval's `evaluation_metadata.jsonl`: tag, prompt, what must be in the image and what must not.

    A prompt is called by its line, as the folders that the official evaluator reads are.
    """
    prompts = []
    for number, line in enumerate(_text(path).splitlines()):
        if not line.strip():
            continue
        entry = _json(line, path, number + 1)
        tag, text, include = entry.get("tag"), entry.get("prompt"), entry.get("include")
        if not isinstance(tag, str) or not isinstance(text, str) or not isinstance(include, list):
            raise _refused(path, number + 1, "tag, prompt and include", line)
        prompts.append(
            Prompt(
                set=name,
                id=f"{number:05d}",
                text=text,
                category=tag,
                details={"include": include, "exclude": entry.get("exclude", [])},
            )
        )
    return _some(prompts, path)


def read_dpg(path: Path, name: str) -> list[Prompt]:
    """DPG-Bench's `dpg_bench.csv`, which has a row a question, or its folder of `<id>.txt`.

    The official script overlooks the first row's question, not its prompt: nothing is left out here. The
    category is the collection that a prompt was taken from, which its name begins with.
    """
    if path.is_dir():
        files = sorted(path.glob("*.txt"))
        return _some([_dpg(name, file.stem, _text(file).strip()) for file in files], path)
    texts: dict[str, str] = {}
    for number, row in _rows(path, DPG_COLUMNS, ","):
        known = texts.setdefault(row["item_id"], row["text"])
        if known != row["text"]:
            raise _refused(path, number, f"one text for {row['item_id']}", row["text"])
    return _some([_dpg(name, item, text) for item, text in texts.items()], path)


def _dpg(name: str, item: str, text: str) -> Prompt:
    source = re.match(r"[A-Za-z]*", item)
    return Prompt(set=name, id=item, text=text, category=(source and source[0]) or "numbered")


def read_parti(path: Path, name: str) -> list[Prompt]:
    """`PartiPrompts.tsv`: Prompt, Category, Challenge, Note."""
    return _some(
        [
            Prompt(
                set=name,
                id=f"{number - 2:04d}",
                text=row["Prompt"],
                category=row["Category"],
                details={"challenge": row["Challenge"]},
            )
            for number, row in _rows(path, PARTI_COLUMNS, "\t")
        ],
        path,
    )


def read_coco(path: Path, name: str) -> list[Prompt]:
    """COCO's `captions_val2017.json`: the longest caption of every image, images in the order of their ids.

    That is what the papers on speculative Jacobi decoding and LANTERN take; a prompt is called by the id of
    its annotation, as their files are. Of equally long captions the first one counts.
    """
    whole = _json(_text(path), path, 1)
    longest: dict[int, Mapping[str, Any]] = {}
    entries = whole.get("annotations")
    if not isinstance(entries, list) or not isinstance(whole.get("images"), list):
        raise _refused(path, 1, "images and annotations", ", ".join(whole))
    for entry in entries:
        try:
            image, caption = int(entry["image_id"]), str(entry["caption"])
            entry["id"]
        except (KeyError, TypeError, ValueError):
            raise _refused(path, 1, "annotations with id, image_id and caption", entry) from None
        if image not in longest or len(caption) > len(longest[image]["caption"]):
            longest[image] = entry
    return _some(
        [
            Prompt(
                set=name,
                id=str(entry["id"]),
                text=" ".join(entry["caption"].split()),
                category="captions",
                details={"image_id": image},
            )
            for image, entry in sorted(longest.items())
        ],
        path,
    )


Reader = Callable[[Path, str], list[Prompt]]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or "bytes that are not UTF-8"
        raise RowcastError(f"expected a prompt set at {path}, found: {found}; correct its path") from None


def _json(text: str, path: Path, number: int) -> dict[str, Any]:
    try:
        entry = json.loads(text)
    except ValueError:
        entry = None
    if not isinstance(entry, dict):
        raise _refused(path, number, "a JSON object", text)
    return entry


def _rows(path: Path, columns: Sequence[str], separator: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Line numbers and rows; quotes are plain letters in a file of tabs."""
    quoting = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
    csv.field_size_limit(1 << 20)
    reader = csv.DictReader(_text(path).splitlines(keepends=True), delimiter=separator, quoting=quoting)
    missing = [name for name in columns if name not in (reader.fieldnames or [])]
    if missing:
        raise _refused(path, 1, f"the columns {', '.join(columns)}", ", ".join(reader.fieldnames or []))
    for number, row in enumerate(reader, 2):
        if any(row[name] is None for name in columns) or not row[columns[0]].strip():
            raise _refused(path, number, f"the columns {', '.join(columns)}", row)
        yield number, row


def _some(prompts: list[Prompt], path: Path) -> list[Prompt]:
    if not prompts:
        raise RowcastError(f"expected prompts in {path}, found none; correct its path")
    return prompts


def _refused(path: Path, number: int, wanted: str, found: object) -> RowcastError:
    return RowcastError(
        f"expected {wanted} in row {number} of {path}, found {str(found)[:60]!r}: is this the published file?"
    )
