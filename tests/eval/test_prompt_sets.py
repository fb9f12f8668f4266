"""The published formats of prompt sets, on small files of our own; and which prompts are taken."""

import json
from collections import Counter

import pytest

from backbones.errors import RowcastError
from backbones.pocket.photographs import parse_caption
from eval.items import metadata_of, plain_prompts, set_items, work_items
from eval.prompt_sets.choose import Share, choose, stratified
from eval.prompt_sets.formats import read_coco, read_dpg, read_geneval, read_parti
from eval.prompt_sets.manifest import SETS
from tests.eval.test_samples import sample

pytestmark = pytest.mark.unit

GENEVAL = [
    {"tag": "single_object", "include": [{"class": "bench", "count": 1}], "prompt": "a photo of a bench"},
    {
        "tag": "counting",
        "include": [{"class": "clock", "count": 2}],
        "exclude": [{"class": "clock", "count": 3}],
        "prompt": "a photo of two clocks",
    },
]
SIGN = '"A sign, red, that says ""open"".\nIt hangs."'
DPG = f"""item_id,text,keywords,proposition_id,dependency,tuple,question_natural_language
drawtext7,{SIGN},,1,0,entity - whole (sign),Is there a sign?
drawtext7,{SIGN},,2,1,attribute - color (red),Is it red?
31,Two wooden boats.,,1,0,entity - whole (boats),Are there boats?
"""
PARTI = (
    "Prompt\tCategory\tChallenge\tNote\n"
    'a sign that says "Go\tWorld Knowledge\tWriting & Symbols\t\n'
    "bond\tAbstract\tBasic\tone word\n"
)


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_geneval(tmp_path):
    path = write(tmp_path, "m.jsonl", "".join(json.dumps(entry) + "\n" for entry in GENEVAL))
    one, two = read_geneval(path, "geneval")
    assert (one.id, one.category, one.text) == ("00000", "single_object", "a photo of a bench")
    assert one.details == {"include": [{"class": "bench", "count": 1}], "exclude": []}
    assert two.details["exclude"] == [{"class": "clock", "count": 3}]


def test_dpg_as_a_table_of_questions_and_as_a_folder(tmp_path):
    prompts = read_dpg(write(tmp_path, "dpg_bench.csv", DPG), "dpg")
    assert [(prompt.id, prompt.category) for prompt in prompts] == [
        ("drawtext7", "drawtext"),
        ("31", "numbered"),
    ]
    assert prompts[0].text == 'A sign, red, that says "open".\nIt hangs.'
    folder = tmp_path / "prompts"
    folder.mkdir()
    for prompt in prompts:
        write(folder, f"{prompt.id}.txt", prompt.text + "\n")
    assert sorted(read_dpg(folder, "dpg"), key=lambda p: p.id) == sorted(prompts, key=lambda p: p.id)


def test_parti_takes_quotes_as_letters(tmp_path):
    one, two = read_parti(write(tmp_path, "PartiPrompts.tsv", PARTI), "parti")
    assert (one.id, one.text, one.category) == ("0000", 'a sign that says "Go', "World Knowledge")
    assert (two.text, two.details) == ("bond", {"challenge": "Basic"})


def test_coco_takes_the_longest_caption_of_each_image_in_order(tmp_path):
    captions = [(9, 20, "short"), (4, 10, "a cat"), (5, 10, "a cat on\n a mat"), (6, 10, "a dog on a mat")]
    whole = {
        "images": [{"id": 10}, {"id": 20}],
        "annotations": [{"id": a, "image_id": i, "caption": text} for a, i, text in captions],
    }
    found = read_coco(write(tmp_path, "captions.json", json.dumps(whole)), "coco")
    assert [(p.id, p.text, p.details["image_id"]) for p in found] == [
        ("5", "a cat on a mat", 10),
        ("9", "short", 20),
    ]


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_geneval, "", "expected prompts in .*, found none"),
        (read_geneval, '{"tag": 3}\n', "expected tag, prompt and include in row 1"),
        (read_geneval, "[1]\n", "expected a JSON object in row 1"),
        (read_dpg, "id,text\n1,a\n", "expected the columns item_id, text in row 1"),
        (read_dpg, "item_id,text\n1,a\n1,b\n", "expected one text for 1 in row 3"),
        (read_parti, "Prompt,Category\n", "expected the columns Prompt, Category, Challenge, Note"),
        (read_parti, "Prompt\tCategory\tChallenge\tNote\nonly\n", "in row 2"),
        (read_coco, '{"images": []}', "expected images and annotations"),
        (read_coco, '{"images": [], "annotations": [{"id": 1}]}', "expected annotations with id"),
    ],
)
def test_other_files_are_refused_by_row(tmp_path, read, text, message):
    with pytest.raises(RowcastError, match=message):
        read(write(tmp_path, "file", text), "set")


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(RowcastError, match=r"expected a prompt set at .*nowhere"):
        read_parti(tmp_path / "nowhere", "parti")


def test_our_own_set_is_what_the_pocket_model_knows(tmp_path):
    chosen = choose({"smoke": Share(prompts=None, samples=1, path=None)}, tmp_path, fetch=False, seed=0)
    [(prompts, samples)] = chosen.prompts
    assert (len(prompts), samples) == (24, 1)
    assert len({parse_caption(prompt.text) for prompt in prompts}) == 24
    assert len({prompt.category for prompt in prompts}) == 10
    assert set(chosen.files) == {"smoke"}


def test_choice_is_alike_from_every_category_and_repeatable():
    prompts = plain_prompts([f"p{index}" for index in range(30)], ["a"] * 20 + ["b"] * 8 + ["c"] * 2)
    found = stratified(prompts, 12, seed=1)
    assert Counter(prompt.category for prompt in found) == {"a": 5, "b": 5, "c": 2}
    assert found == stratified(prompts, 12, seed=1) != stratified(prompts, 12, seed=2)
    assert [prompt.id for prompt in found] == sorted(prompt.id for prompt in found)
    assert stratified(prompts, None, seed=1) == prompts


def test_items_take_every_prompt_before_a_second_image_and_never_paint_one_twice():
    one, two = plain_prompts(["x", "y", "x"]), plain_prompts(["y", "z"])
    assert [(i.prompt.text, i.sample) for i in work_items(one, 5)] == [
        ("x", 0),
        ("y", 0),
        ("x", 1),
        ("y", 1),
        ("x", 2),
    ]
    items = set_items([(one, 1), (two, 2)], seed=0)
    assert Counter(item.prompt.text for item in items) == {"x": 1, "y": 3, "z": 2}
    assert len({(item.prompt.text, item.sample) for item in items}) == len(items)


def test_scorers_are_told_what_the_set_says_of_an_image(tmp_path):
    path = write(tmp_path, "m.jsonl", "".join(json.dumps(entry) + "\n" for entry in GENEVAL))
    told = metadata_of(work_items(read_geneval(path, "geneval"), 2))(sample("a photo of two clocks"))
    assert told == {"set": "geneval", "item_id": "00001", **GENEVAL[1]}


def test_every_set_says_where_it_comes_from():
    for entry in SETS.values():
        assert entry.licence
        assert entry.page
        if entry.published:
            assert len(entry.published.sha256) == 64
