"""The folders that the official evaluators read: written, read, and refused where something is missing."""

import json
import re

import pytest
from PIL import Image

from backbones.errors import RowcastError
from eval.scorers.dpg_files import read_grids, read_questions, write_grid
from eval.scorers.layouts import (
    read_captioned,
    read_geneval,
    read_plain,
    save_png,
    write_captioned,
    write_geneval,
)
from eval.scorers.recorded import read_answers

pytestmark = pytest.mark.unit

METADATA = {"tag": "single_object", "prompt": "a photo of a book", "include": [{"class": "book", "count": 1}]}
COLOURS = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (9, 9, 9)]
HEADER = "item_id,text,keywords,proposition_id,dependency,category_broad,category_detailed,tuple,"
HEADER += "question_natural_language\n"


def flat(*colours, size=8):
    return [Image.new("RGB", (size, size), colour) for colour in colours]


def csv(path, *rows):
    path.write_text(
        HEADER + "".join(f'{item},t,k,{i},"{of}",b,d,{kind},{text}\n' for item, i, of, kind, text in rows)
    )
    return path


ROWS = [
    ("a", 1, "0", "entity - whole (book)", "Is there a book?"),
    ("a", 2, "1", '"attribute - color (book, red)"', '"Is it red, or so?"'),
    ("b", 1, "0", "entity - whole (kite)", "Is there a kite?"),
    ("b", 2, "0", "relation - spatial (kite)", "Is it high?"),
    ("b", 3, "1, 2", "attribute - size (kite)", "Is it large?"),
]


@pytest.fixture
def questions(tmp_path):
    return read_questions(csv(tmp_path / "dpg_bench.csv", *ROWS))


def test_geneval_folders_are_as_the_official_evaluator_reads_them(tmp_path):
    write_geneval(tmp_path, 7, METADATA, flat(*COLOURS))
    write_geneval(tmp_path, 12, METADATA, flat(*COLOURS[:2]))
    # What the published script looks for: digits/metadata.jsonl as one JSON value, samples of digits.png.
    assert json.load((tmp_path / "00007" / "metadata.jsonl").open()) == METADATA
    names = sorted(path.name for path in (tmp_path / "00007" / "samples").iterdir())
    assert names == [f"000{n}.png" for n in range(4)]
    assert all(re.match(r"\d+\.png", name) for name in names)
    (tmp_path / "notes").mkdir()
    (tmp_path / "00007" / "grid.png").write_bytes(b"ignored")
    found = read_geneval(tmp_path, samples=None)
    assert [picture.key for picture in found] == [
        *(f"00007/000{n}" for n in range(4)),
        "00012/0000",
        "00012/0001",
    ]
    assert [picture.load().getpixel((0, 0)) for picture in found[:4]] == COLOURS
    assert {picture.group for picture in found} == {"00007", "00012"}
    assert found[0].prompt == "a photo of a book"


def test_what_is_missing_is_an_error_where_the_official_evaluator_goes_on(tmp_path):
    with pytest.raises(RowcastError, match=r"expected folders 00000, 00001.*found none"):
        read_geneval(tmp_path, 4)
    with pytest.raises(RowcastError, match=r"expected a folder of images at .*none, found: No such file"):
        read_geneval(tmp_path / "none", 4)
    write_geneval(tmp_path, 0, METADATA, flat(*COLOURS[:3]))
    with pytest.raises(
        RowcastError, match=r"expected 4 images.*found 3: paint what is missing, or set samples"
    ):
        read_geneval(tmp_path, 4)
    (tmp_path / "00000" / "samples" / "0003.png.bak").write_bytes(b"the official pattern would match this")
    assert len(read_geneval(tmp_path, 3)) == 3
    for broken in ("", "[]", "{", '{"tag": "colors"}'):
        (tmp_path / "00000" / "metadata.jsonl").write_text(broken)
        with pytest.raises(RowcastError, match=r"metadata\.jsonl"):
            read_geneval(tmp_path, 3)
    (tmp_path / "00000" / "metadata.jsonl").unlink()
    with pytest.raises(RowcastError, match="expected the prompt's line of the GenEval set"):
        read_geneval(tmp_path, 3)


def test_captions(tmp_path):
    for name, prompt in (("b.png", "a fox"), ("a.png", "a cat"), ("b.png", "a red fox")):
        write_captioned(tmp_path, name, prompt, flat(COLOURS[0])[0])
    assert [(p.key, p.prompt) for p in read_captioned(tmp_path)] == [
        ("b.png", "a red fox"),
        ("a.png", "a cat"),
    ]
    (tmp_path / "a.png").unlink()
    with pytest.raises(RowcastError, match=r"expected the picture a\.png"):
        read_captioned(tmp_path)
    outside = tmp_path / "in"
    outside.mkdir()
    (outside / "captions.jsonl").write_text('{"file": "../b.png", "prompt": "x"}\n')
    with pytest.raises(RowcastError, match=r"expected the picture \.\./b\.png"):
        read_captioned(outside)
    (outside / "captions.jsonl").write_text('{"file": 3}\n')
    with pytest.raises(RowcastError, match="texts `file` and `prompt` in line 1"):
        read_captioned(outside)


def test_a_geneval_folder_has_captions_too(tmp_path):
    write_geneval(tmp_path, 0, METADATA, flat(*COLOURS))
    assert {picture.prompt for picture in read_captioned(tmp_path)} == {"a photo of a book"}
    (tmp_path / "other").mkdir()
    with pytest.raises(RowcastError, match=r"expected .*captions\.jsonl with lines"):
        read_captioned(tmp_path / "other")


def test_plain_folders_are_searched_through(tmp_path):
    (tmp_path / "deep").mkdir()
    save_png(flat(COLOURS[0])[0], tmp_path / "deep" / "z.png")
    flat(COLOURS[1])[0].save(tmp_path / "a.JPG", format="JPEG")
    (tmp_path / "notes.txt").write_text("x")
    assert [picture.key for picture in read_plain(tmp_path)] == ["a.JPG", "deep/z.png"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(RowcastError, match="expected pictures"):
        read_plain(tmp_path / "empty")


def test_questions(questions):
    assert [question.id for question in questions["b"]] == [1, 2, 3]
    assert questions["b"][2].parents == (1, 2)
    assert questions["a"][0].parents == ()
    assert questions["a"][1].text == "Is it red, or so?"
    assert questions["a"][1].category == "attribute - color"
    assert [q.first_row for q in questions["a"] + questions["b"]] == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", "x", "0", "e", "q")], "whole numbers .* in row 1"),
        ([("a", 1, "", "e", "q")], "whole numbers"),
        ([("a", 1, "0", "e", "q"), ("a", 1, "0", "e", "q")], "question 1 twice"),
        ([("a", 1, "4", "e", "q")], "a dependency on 4, which is no question"),
        ([], "found no rows"),
    ],
)
def test_question_files_that_cannot_be_used(rows, message, tmp_path):
    with pytest.raises(RowcastError, match=message):
        read_questions(csv(tmp_path / "q.csv", *rows))


def test_a_question_file_of_other_columns_or_none(tmp_path):
    (tmp_path / "q.csv").write_text("id,question\n1,x\n")
    with pytest.raises(RowcastError, match="found no item_id, proposition_id"):
        read_questions(tmp_path / "q.csv")
    with pytest.raises(RowcastError, match=r"fetch dpg_bench\.csv of the ELLA repository"):
        read_questions(tmp_path / "none.csv")


def test_grids_hold_four_images_row_by_row(tmp_path, questions):
    grids = tmp_path / "grids"
    write_grid(grids, "a", flat(*COLOURS))
    write_grid(grids, "b", flat(*COLOURS))
    # The published script cuts (0,0), (r,0), (0,r), (r,r) and takes the name up to the first dot.
    image = Image.open(grids / "a.png")
    assert [image.getpixel(at) for at in ((0, 0), (8, 0), (0, 8), (8, 8))] == COLOURS
    found = read_grids(grids, questions, 4)
    assert [picture.key for picture in found[:4]] == ["a/0", "a/1", "a/2", "a/3"]
    assert [picture.load().getpixel((3, 3)) for picture in found[4:]] == COLOURS
    assert len({picture.fingerprint() for picture in found}) == 8


def test_one_image_a_prompt_is_written_bare(tmp_path, questions):
    write_grid(tmp_path / "g", "a", flat(COLOURS[2]))
    (found,) = read_grids(tmp_path / "g", questions, 1)
    assert found.load().size == (8, 8)


def test_grids_that_cannot_be_used(tmp_path, questions):
    with pytest.raises(RowcastError, match="expected 1 or 4 images of one size for a"):
        write_grid(tmp_path / "g", "a", flat(*COLOURS[:3]))
    with pytest.raises(RowcastError, match="expected 1 or 4 images of one size"):
        write_grid(tmp_path / "g", "a", [*flat(*COLOURS[:3]), Image.new("RGB", (4, 4))])
    folder = tmp_path / "h"
    folder.mkdir()
    with pytest.raises(RowcastError, match=r"expected pictures <prompt id>\.png"):
        read_grids(folder, questions, 4)
    Image.new("RGB", (16, 8)).save(folder / "a.png")
    with pytest.raises(RowcastError, match="four square images, two by two, found 16x8"):
        read_grids(folder, questions, 4)
    write_grid(folder, "unknown", flat(*COLOURS))
    with pytest.raises(RowcastError, match=r"found unknown\.png"):
        read_grids(folder, questions, 1)


def test_answers_of_the_official_script(tmp_path, questions):
    lines = [
        "x/y/a.png, (0, 0, 8, 8), Is it red, or so?, yes",
        "x/y/a.png, (8, 0, 16, 8), Is it red, or so?, no",
        "x/y/b.1.png, (0, 0, 8, 8), Is there a kite?, yes",
        "x/y/b.1.png, (0, 0, 8, 8), Is it high?, yes it is",
        "x/y/b.1.png, (0, 0, 8, 8), Is it large?, yes",
    ]
    path = tmp_path / "r_detail.txt"
    path.write_text("\n".join(lines) + "\n")
    answers = read_answers(path, questions)
    assert answers == {"a": [{2: 1.0}, {2: 0.0}], "b": [{1: 1.0, 2: 0.0, 3: 1.0}]}
    for wrong in ("x/a.png, (0, 0, 8, 8), Is it blue?, yes", "x/c.png, (0, 0, 8, 8), Is it high?, yes", "x"):
        path.write_text(wrong + "\n")
        with pytest.raises(RowcastError, match="in line 1 of"):
            read_answers(path, questions)
    path.write_text("")
    with pytest.raises(RowcastError, match="found none"):
        read_answers(path, questions)


def test_pictures_that_cannot_be_read(tmp_path):
    write_geneval(tmp_path, 0, METADATA, flat(*COLOURS[:1]))
    path = tmp_path / "00000" / "samples" / "0000.png"
    whole = path.read_bytes()
    (picture,) = read_geneval(tmp_path, 1)
    before = picture.fingerprint()
    for content in (b"", b"text", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(RowcastError, match="expected a readable image at"):
            picture.load()
    assert picture.fingerprint() != before
    path.unlink()
    with pytest.raises(RowcastError, match="expected a readable image at"):
        picture.fingerprint()


def test_pictures_are_turned_as_their_camera_says(tmp_path):
    image = Image.new("RGB", (4, 2), (255, 0, 0))
    exif = image.getexif()
    exif[274] = 6
    image.save(tmp_path / "a.png", exif=exif)
    (picture,) = read_plain(tmp_path)
    assert picture.load().size == (2, 4)
