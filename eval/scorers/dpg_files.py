"""The files of DPG-Bench: its questions, and one picture a prompt with four images in it."""

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image

from backbones.errors import RowcastError
from eval.scorers.dpg import Question
from eval.scorers.layouts import SUFFIXES, entries, save_png
from eval.scorers.pictures import Box, Picture, image_size

COLUMNS = ("item_id", "proposition_id", "dependency", "tuple", "question_natural_language")
TILES = 4


def read_questions(path: Path) -> dict[str, list[Question]]:
    """The questions of every prompt, from the published `dpg_bench.csv`.

    Raises:
        RowcastError: if the file or a column is missing, a number is none, an id occurs twice, or a question
            depends on one that is not there.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RowcastError(
            f"expected the question file of DPG-Bench at {path}, found: {getattr(error, 'strerror', error)}: "
            "fetch dpg_bench.csv of the ELLA repository and pass questions="
        ) from None
    missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if missing or not rows:
        lacking = ", ".join(missing or ["rows"])
        raise RowcastError(
            f"expected rows with {', '.join(COLUMNS)} in {path}, found no {lacking}: "
            "pass dpg_bench.csv as it was published"
        )
    questions: dict[str, list[Question]] = defaultdict(list)
    for number, row in enumerate(rows):
        questions[row["item_id"]].append(_question(row, number, path))
    for item, asked in questions.items():
        _require_graph(item, asked, path)
    return dict(questions)


def _question(row: Mapping[str, str], number: int, path: Path) -> Question:
    try:
        parents = tuple(int(part) for part in row["dependency"].split(","))
        return Question(
            id=int(row["proposition_id"]),
            text=row["question_natural_language"].strip(),
            category=row["tuple"].partition("(")[0].strip(),
            parents=tuple(parent for parent in parents if parent),
            first_row=number == 0,
        )
    except (ValueError, AttributeError):
        raise RowcastError(
            f"expected whole numbers in proposition_id and dependency in row {number + 1} of {path}, found "
            f"{row['proposition_id']!r} and {row['dependency']!r}: pass dpg_bench.csv as it was published"
        ) from None


def _require_graph(item: str, questions: Sequence[Question], path: Path) -> None:
    known = [question.id for question in questions]
    twice = sorted({name for name in known if known.count(name) > 1})
    lost = sorted({parent for question in questions for parent in question.parents} - set(known))
    if twice or lost:
        what = f"question {twice[0]} twice" if twice else f"a dependency on {lost[0]}, which is no question"
        raise RowcastError(
            f"expected the questions of {item} to depend on each other, found {what} in {path}: "
            "pass dpg_bench.csv as it was published"
        )


def write_grid(folder: Path, item: str, images: Sequence[Image.Image]) -> None:
    """Writes one prompt's images as the official script reads them: one PNG, 2x2, row by row; one image bare.

    Args:
        folder: of the whole set.
        item: the prompt's id.
        images: one, or four of one size.

    Raises:
        RowcastError: for another number of images, or several sizes.
    """
    if len(images) not in (1, TILES) or len({image.size for image in images}) != 1:
        raise RowcastError(
            f"expected 1 or {TILES} images of one size for {item}, found {[image.size for image in images]}: "
            f"paint {TILES} images a prompt"
        )
    folder.mkdir(parents=True, exist_ok=True)
    width, height = images[0].size
    side = 1 if len(images) == 1 else 2
    grid = Image.new("RGB", (side * width, side * height))
    for place, image in enumerate(images):
        grid.paste(image, (place % side * width, place // side * height))
    save_png(grid, folder / f"{item}.png")


def read_grids(folder: Path, questions: Mapping[str, Sequence[Question]], tiles: int) -> list[Picture]:
    """Every image of a folder of grids, by prompt and tile.

    Args:
        folder: one picture a prompt, named by its id up to the first dot.
        questions: by prompt; a picture of another name is refused, where the official script would drop it.
        tiles: images in each picture: 4, or 1.

    Raises:
        RowcastError: if there is no picture, one is of no known prompt, or is no 2x2 grid of squares.
    """
    paths = sorted(path for path in entries(folder) if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise RowcastError(f"expected pictures <prompt id>.png in {folder}, found none: check images=")
    pictures = []
    for path in paths:
        item = path.name.partition(".")[0]
        if item not in questions:
            raise RowcastError(
                f"expected pictures named by prompts of the question file, found {path.name} in {folder}: "
                "take it out, or pass the questions it belongs to"
            )
        pictures += [
            Picture(
                key=f"{item}/{number}",
                path=path,
                group=item,
                metadata={"questions": [question.text for question in questions[item]]},
                tile=tile,
            )
            for number, tile in enumerate(_tiles(path, tiles))
        ]
    return pictures


def _tiles(path: Path, tiles: int) -> list[Box | None]:
    if tiles == 1:
        return [None]
    width, height = image_size(path)
    if width != height or width % 2:
        raise RowcastError(
            f"expected four square images, two by two, found {width}x{height} pixels in {path}: "
            "write them with eval.scorers.dpg_files.write_grid, or set tiles=1"
        )
    side = width // 2
    return [(x, y, x + side, y + side) for y in (0, side) for x in (0, side)]
