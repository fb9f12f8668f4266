"""`python -m eval` as a user starts it, on a pocket checkpoint with random weights."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from backbones.errors import RowcastError
from backbones.pocket.architecture import text_tokenizer, untrained
from backbones.registry import load_backbone
from checkpoints.bundle import save_bundle
from checkpoints.config import read_config
from checkpoints.measured import read_measured
from conf.schema import Benchmark, EvalJob, Model, SamplingOverrides
from eval.job import run
from heads.bank import HeadBank
from tests.eval.scorers.tiny_models import save_clip

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """The options that name a random model, a bundle for it and a folder."""
    folder = tmp_path_factory.mktemp("eval")
    untrained(0).save_pretrained(folder / "model")
    text_tokenizer().save_pretrained(folder / "model")
    backbone = load_backbone("pocket", path=str(folder / "model"), device="cpu")
    bank = HeadBank(backbone.width, horizontal=5, vertical=1)
    save_bundle(
        folder / "heads", bank, backbone=backbone, sampling=backbone.sampling, training={}, metrics={}
    )
    return {"model.path": folder / "model", "heads": folder / "heads", "folder": folder / "out"}


def command(options, *words):
    line = [sys.executable, "-m", "eval", *(f"{name}={value}" for name, value in options.items()), *words]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)


@pytest.fixture(scope="module")
def smoke(given):
    """The smoke suite from end to end: quality, control, ladder, everything that is written."""
    few = ["benchmark.images=1", "benchmark.warm_up=0", "ladder=1", "benchmark.decoders=[ar,ssd_r0]"]
    clip = save_clip(given["folder"].with_name("clip-vit-large-patch14"))
    judged = ["scores=clip", f"scoring.clip={clip}", "attach=true"]
    return command(given, "suite=smoke", *few, *judged, f"baselines={given['folder'].with_name('baselines')}")


def test_table_then_one_json_line_and_the_report(given, smoke):
    assert smoke.returncode == 0, smoke.stderr
    lines = smoke.stdout.strip().splitlines()
    last = json.loads(lines[-1])
    assert last["decoders"]["ar"]["forwards"] == 256
    assert last["decoders"]["ssd_r0"]["forwards"] == 22
    assert any(line.startswith("ssd_r0") and "lossy" in line for line in lines)
    page = (given["folder"] / "report.html").read_text()
    assert Path(last["report"]) == given["folder"] / "report.html"
    assert "python -m eval model.path=" in page
    assert page.count("<svg") == 2
    assert len(page) < 1_000_000


def test_results_say_what_was_measured(given, smoke):
    results = json.loads((given["folder"] / "results.json").read_text())
    assert results["decoders"][1]["options"]["rounds"] == 0
    assert results["suite"] == "smoke"
    [source] = results["prompts"]
    assert (source["name"], source["prompts"], source["images"]) == ("smoke", 24, 24)
    assert results["control"]["images"] == 24
    assert results["ladder"]["loop"] == "transformers generate"
    assert {"garment", "colour", "background"} <= results["decoders"][0]["quality"]["scores"].keys()
    assert len(list(given["folder"].glob("gallery/*.png"))) == 2
    [pool] = given["folder"].with_name("baselines").glob("samples-*.jsonl")
    assert pool.read_text().count('{"image"') == 48


def test_the_report_can_be_written_anew_from_the_command_line(given, smoke):
    page = given["folder"] / "report.html"
    before = page.read_bytes()
    page.unlink()
    line = [sys.executable, "-m", "eval", "report", f"folder={given['folder']}"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, f"report: {page}\n"), done.stderr
    assert page.read_bytes() == before


def test_scores_are_columns_and_everything_lies_beside_the_heads(given, smoke):
    results = json.loads((given["folder"] / "results.json").read_text())
    assert all("clip/clean" in each["quality"]["scores"] for each in results["decoders"])
    (pictures,) = given["folder"].glob("scores-*/pictures")
    counts = {place.name: len(list(place.iterdir())) for place in pictures.iterdir()}
    assert counts == {"ar-main": 24, "ar-control": 24, "ssd_r0-main": 24}
    measured = read_measured(given["heads"], read_config(given["heads"]))
    assert [decoder.name for decoder in measured.decoders] == ["ar", "ssd_r0"]
    with Image.open(given["heads"] / "samples.png") as sheet:
        assert sheet.size == (128, 128), "the one image of the gallery"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"heads": "nowhere"}, "nowhere"),
        ({"prompts": "nowhere.txt"}, "nowhere.txt"),
        ({"decoders": ["ssd"]}, "expected ar among the decoders"),
        ({"decoders": ["ar", "sssd"]}, "sssd"),
    ],
)
def test_bad_input_says_what_is_wrong_before_anything_is_painted(given, change, expected):
    whole = {"decoders": ["ar", "ssd"], "prompts": None, "heads": str(given["heads"]), **change}
    heads = whole.pop("heads")
    benchmark = Benchmark(**whole, images=1, quality_images=0, warm_up=0, seed=0, quality_batch=1)
    model = Model(
        name="pocket",
        device="cpu",
        dtype="float32",
        path=str(given["model.path"]),
        revision=None,
        weights="published",
        size=None,
        tokenizer=None,
        pixels=None,
        text_encoder=None,
    )
    unset = SamplingOverrides(guidance=None, temperature=None, top_k=None, top_p=None)
    folder = given["folder"].with_name("unused")
    with pytest.raises(RowcastError, match=expected):
        run(EvalJob(model, unset, benchmark, heads, str(folder)))
    assert not folder.exists()
