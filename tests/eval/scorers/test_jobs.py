"""End to end on drawings with known answers; killed runs go on; results can be read."""

import json

import pytest
import torch
from hydra import compose, initialize_config_dir
from safetensors.torch import save_file

from backbones.errors import RowcastError
from conf.check import FOLDER, typed
from conf.words import prepare
from eval.scorers import jobs
from eval.scorers.__main__ import COMMANDS, main
from eval.scorers.dpg_files import write_grid
from eval.scorers.layouts import write_captioned, write_geneval
from eval.scorers.results import balanced_interval, image_columns
from tests.eval.scorers.drawings import drawing
from tests.eval.scorers.test_layouts import ROWS, csv
from tests.eval.scorers.tiny_models import save_blip, save_clip, save_mask2former

pytestmark = pytest.mark.unit

LEFT, RIGHT, TOP, BOTTOM = (14, 32), (50, 32), (32, 14), (32, 50)
CORNERS = [(14, 14), (50, 14), (14, 50), (50, 50)]


def thing(name, count=1, **more):
    return {"class": name, "count": count, **more}


# Prompt metadata, and images of it with whether they are right.
SET = [
    (
        {"tag": "single_object", "prompt": "a book", "include": [thing("book")]},
        [(drawing(("book", "red", LEFT)), True), (drawing(("kite", "red", LEFT)), False)],
    ),
    (
        {"tag": "two_object", "prompt": "a book and a kite", "include": [thing("book"), thing("kite")]},
        [
            (drawing(("book", "red", LEFT), ("kite", "blue", RIGHT)), True),
            (drawing(("book", "red", LEFT), ("book", "blue", RIGHT)), False),
        ],
    ),
    (
        {
            "tag": "counting",
            "prompt": "three balls",
            "include": [thing("sports ball", 3)],
            "exclude": [thing("sports ball", 4)],
        },
        [
            (drawing(*(("sports ball", "red", at) for at in CORNERS[:3])), True),
            (drawing(*(("sports ball", "red", at) for at in CORNERS)), False),
        ],
    ),
    (
        {"tag": "colors", "prompt": "a green kite", "include": [thing("kite", color="green")]},
        [(drawing(("kite", "green", TOP)), True), (drawing(("kite", "purple", TOP)), False)],
    ),
    (
        {
            "tag": "position",
            "prompt": "a book above a ball",
            "include": [thing("sports ball"), thing("book", position=["above", 0])],
        },
        [
            (drawing(("book", "red", TOP), ("sports ball", "blue", BOTTOM)), True),
            (drawing(("book", "red", LEFT), ("sports ball", "blue", RIGHT)), False),
        ],
    ),
    (
        {
            "tag": "color_attr",
            "prompt": "a yellow book and a black kite",
            "include": [thing("book", color="yellow"), thing("kite", color="black")],
        },
        [
            (drawing(("book", "yellow", LEFT), ("kite", "black", RIGHT)), True),
            (drawing(("book", "black", LEFT), ("kite", "yellow", RIGHT)), False),
        ],
    ),
]


def job(name, *words):
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        return typed(compose(name, prepare(words, name, COMMANDS[name])), COMMANDS[name])


def run(name, *words):
    from dataclasses import asdict

    getattr(jobs, name)(**asdict(job(name, *words)))


def results(folder, protocol):
    return json.loads((folder / f"scores-{protocol}.json").read_text())


@pytest.fixture
def painted(tmp_path):
    for index, (metadata, images) in enumerate(SET):
        write_geneval(tmp_path / "images", index, metadata, [image for image, _ in images])
    return tmp_path / "images"


def test_geneval_gives_drawings_their_known_scores(painted, capsys):
    run("geneval", f"images={painted}", "samples=2", "detector=shapes")
    out = painted.parent / "images-scores"
    found = results(out, "geneval-shapes")
    assert found["protocol"] == "geneval/shapes"
    expected = {
        f"{n:05d}/000{k}": float(right)
        for n, (_, images) in enumerate(SET)
        for k, (_, right) in enumerate(images)
    }
    assert found["by_image"] == expected
    assert {name: value["value"] for name, value in found["values"].items()} == pytest.approx(
        {"overall": 0.5, **{m["tag"]: 0.5 for m, _ in SET}, "images": 0.5, "prompts with a right image": 1.0}
    )
    assert "not the published set of 553 prompts" in found["notes"][0]
    assert "2 to 2 images a prompt" in found["notes"][1]
    shown = capsys.readouterr().out
    assert "geneval/shapes\n  overall" in shown
    lines = [
        json.loads(line) for line in next(out.glob("geneval-shapes-*.jsonl")).read_text().splitlines()[1:]
    ]
    reasons = {line["key"]: line["detail"]["reasons"] for line in lines}
    assert reasons["00002/0001"] == ["expected sports ball<4, found 4"]
    assert reasons["00003/0001"] == ["expected green kite>=1, found purple"]
    assert reasons["00004/0001"] == ["expected book above target, found left of target"]
    assert image_columns(out) == {key: {"geneval/shapes": value} for key, value in expected.items()}


def test_the_official_verdicts_stand_beside_ours(painted, tmp_path):
    records = [
        {"filename": str(path), "correct": path.stem == "0000"}
        for path in sorted(painted.glob("*/samples/*.png"))
    ]
    records[0]["correct"] = False
    (tmp_path / "results.jsonl").write_text("\n".join(json.dumps(record) for record in records))
    words = ["samples=2", "detector=shapes", f"official={tmp_path / 'results.jsonl'}"]
    run("geneval", f"images={painted}", *words)
    found = results(painted.parent / "images-scores", "geneval-shapes")
    assert found["values"]["agreement"]["value"] == pytest.approx(11 / 12)
    assert found["notes"][-1] == "the official evaluator differs on 1 of 12 images, such as 00000/0000"


def test_a_killed_run_goes_on_and_a_new_picture_is_judged_anew(painted, capsys):
    run("geneval", f"images={painted}", "samples=2", "detector=shapes", "batch=3")
    out = painted.parent / "images-scores"
    log = next(out.glob("*.jsonl"))
    whole = log.read_bytes()
    before = results(out, "geneval-shapes")["by_image"]
    log.write_bytes(b"".join(whole.splitlines(keepends=True)[:5]) + b'{"picture": "ha')
    run("geneval", f"images={painted}", "samples=2", "detector=shapes")
    assert results(out, "geneval-shapes")["by_image"] == before
    assert sorted(log.read_bytes().splitlines()) == sorted(whole.splitlines())
    kite, book = (painted / "00000" / "samples" / f"000{n}.png" for n in (1, 0))
    kite.write_bytes(book.read_bytes())
    run("geneval", f"images={painted}", "samples=2", "detector=shapes")
    assert results(out, "geneval-shapes")["by_image"]["00000/0001"] == 1
    assert len(log.read_bytes().splitlines()) == len(whole.splitlines()), "the same picture is known already"
    log.write_text("{}\n")
    with pytest.raises(RowcastError, match=r"in line 1 of .*: delete that line or the file"):
        run("geneval", f"images={painted}", "samples=2", "detector=shapes")


def test_geneval_with_models_names_its_protocol(painted, tmp_path, monkeypatch):
    monkeypatch.setattr("eval.scorers.backends.mask2former.SHORTER", 64)
    detector = save_mask2former(tmp_path / "mask2former-swin-small-coco-instance")
    clip = save_clip(tmp_path / "clip")
    out = tmp_path / "out"
    run(
        "geneval",
        f"images={painted}",
        "samples=null",
        f"detector={detector}",
        f"clip={clip}",
        f"out={out}",
        "max_overlap=0.8",
    )
    found = results(out, "geneval-hf-mask2former")
    assert found["protocol"] == "geneval/hf-mask2former"
    assert found["contract"]["detector"] == {"path": str(detector), "commit": None, "dtype": "float32"}
    assert found["notes"][-1] == "max_overlap=0.8, where the official evaluator lets boxes overlap"
    assert len(found["by_image"]) == 12


@pytest.fixture(scope="module")
def grids(tmp_path_factory):
    root = tmp_path_factory.mktemp("dpg")
    questions = csv(root / "dpg_bench.csv", *ROWS)
    for item in ("a", "b"):
        write_grid(
            root / "images",
            item,
            [drawing(("book", colour, LEFT)) for colour in ("red", "blue", "pink", "black")],
        )
    return root, questions, save_blip(root / "blip-tiny")


def test_dpg_reports_both_numbers_from_the_same_answers(grids):
    root, questions, model = grids
    run("dpg", f"images={root / 'images'}", f"questions={questions}", f"vqa={model}", f"out={root / 'out'}")
    found = results(root / "out", "dpg-blip-tiny")
    assert found["protocol"] == "dpg/blip-tiny"
    names = list(found["values"])
    assert names[:2] == ["overall, fixed", "overall, official"]
    assert {"entity", "attribute", "relation", "attribute - color"} <= set(names)
    assert found["values"]["attribute"]["n"] == 8, "two prompts, four images"
    assert found["notes"] == [
        "official: 1 prompts dropped from the mean (a)",
        "2 of the published 1065 prompts",
    ]
    by_image = found["by_image"]
    mean = 100 * sum(by_image.values()) / 8
    assert found["values"]["overall, fixed"]["value"] == pytest.approx(mean)
    run(
        "dpg",
        f"images={root / 'images'}",
        f"questions={questions}",
        f"vqa={model}",
        f"out={root / 'out'}",
        "compat=official",
    )
    found = results(root / "out", "dpg-blip-tiny")
    assert next(iter(found["values"])) == "overall, official"
    assert found["values"]["attribute"]["n"] == 1, "the last image of the one prompt that is left"


def test_recorded_answers_are_scored_as_mplug(grids, tmp_path):
    _, questions, _ = grids
    lines = [
        f"i/b.png, (0, 0, 8, 8), {text}, {answer}"
        for text, answer in (("Is there a kite?", "yes"), ("Is it high?", "no"), ("Is it large?", "yes"))
    ]
    (tmp_path / "detail.txt").write_text("\n".join(lines))
    run("dpg", f"answers={tmp_path / 'detail.txt'}", f"questions={questions}", f"out={tmp_path / 'out'}")
    found = results(tmp_path / "out", "dpg-mplug")
    assert found["values"]["overall, fixed"]["value"] == pytest.approx(100 / 3)
    with pytest.raises(RowcastError, match="expected images=<folder> or answers=<file>, found neither"):
        run("dpg", f"questions={questions}")
    with pytest.raises(RowcastError, match="expected out=<folder> beside answers="):
        run("dpg", f"answers={tmp_path / 'detail.txt'}", f"questions={questions}")


def test_clip_of_a_folder_with_captions(tmp_path):
    for name, (metadata, images) in zip("abc", SET[:3], strict=True):
        write_captioned(tmp_path / "images", f"{name}.png", metadata["prompt"], images[0][0])
    model = save_clip(tmp_path / "clip-vit-large-patch14")
    run("clip", f"images={tmp_path / 'images'}", f"clip={model}")
    found = results(tmp_path / "images-scores", "clip-clean")
    assert found["values"]["clip"]["n"] == 3
    assert set(found["by_image"]) == {"a.png", "b.png", "c.png"}


def test_fid_of_two_folders(tmp_path):
    from tests.eval.scorers.test_inception import random_weights

    torch.manual_seed(0)
    save_file(random_weights(), tmp_path / "w.safetensors")
    for number, (metadata, images) in enumerate(SET[:2]):
        write_captioned(tmp_path / "real", f"{number}.png", metadata["prompt"], images[0][0])
        write_captioned(tmp_path / "fake", f"{number}.png", metadata["prompt"], images[1][0])
    words = [
        f"reference={tmp_path / 'real'}",
        f"inception={tmp_path / 'w.safetensors'}",
        f"out={tmp_path / 'out'}",
    ]
    run("fid", f"images={tmp_path / 'fake'}", *words)
    path = next((tmp_path / "out").glob("scores-fid-clean+weights-*.json"))
    apart = json.loads(path.read_text())
    assert apart["values"]["fid"]["value"] > 0
    assert "FID of fewer than 2048 images" in apart["notes"][1]
    assert image_columns(tmp_path / "out") == {}


def test_tags_count_alike_and_their_interval_holds_their_mean():
    found = balanced_interval({"a": [1.0] * 90, "b": [0.0, 1.0] * 5})
    assert found.value == pytest.approx(0.75)
    assert found.low < 0.75 < found.high
    assert found.n == 100
    assert balanced_interval({"a": [1.0]}).low is None


def test_the_command(painted, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["eval.scorers"])
    with pytest.raises(SystemExit) as ended:
        main(["geneval", f"images={painted}", "samples=2", "detector=shapes"])
    assert ended.value.code == 0
    assert "overall" in capsys.readouterr().out
