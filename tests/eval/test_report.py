"""The page and the tables of a benchmark: sound, escaped, and made of results and log alone."""

import csv
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from backbones.errors import RowcastError
from eval.columns import KNOWN, column, ordered
from eval.exports import csv_table, latex_table, markdown_table, paper_columns
from eval.paired import Delta
from eval.plot import Point, front, tradeoff_plot
from eval.rendering import render_again
from eval.results import DecoderResult, Frechet, Score, read_results
from eval.samples import read_into
from eval.statistics import Interval
from eval.table import verdict
from tests.eval.tiny import HOSTILE, run_tiny

pytestmark = pytest.mark.unit

VOID = {"meta", "img", "br"}
TABLES = ("table.md", "table.tex", "table.csv")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return run_tiny(folder), folder


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run[1], tmp_path / "copy")


class Page(HTMLParser):
    """Balanced tags, and everything that could reach outside."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_page_is_one_sound_file_with_prompts_escaped(run):
    text = (run[1] / "report.html").read_text()
    found = Page(text)
    assert found.open == []
    assert "script" not in found.tags
    assert HOSTILE in found.words
    assert found.addresses
    assert all(re.match("data:image/(png|webp);base64,", address) for address in found.addresses)
    assert "<b>" not in text.partition("The command that made this page")[2]
    for term in ("lossy", "lossless", "second seed", "python -m eval &lt;b&gt;", "order of commit"):
        assert term in text
    assert found.tags.count("svg") == 2
    assert "script" in Page(f"<p>{HOSTILE}</p>").tags, "unescaped, the prompt would have run"


def test_rendering_again_needs_no_model_and_gives_the_same_bytes(copy):
    before = {path.name: path.read_bytes() for path in copy.iterdir() if path.is_file()}
    for name in ("report.html", *TABLES):
        (copy / name).unlink()
    assert render_again(copy) == copy / "report.html"
    assert {path.name: path.read_bytes() for path in copy.iterdir() if path.is_file()} == before


def test_results_come_back_as_they_were(run):
    assert read_results(run[1]) == run[0]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda whole: whole.update(schema=2), "expected results of schema 3 in .*, found 2"),
        (lambda whole: whole.pop("schema"), "found other content"),
        (lambda whole: whole["decoders"][0].pop("forwards"), "decoders, 0, found 'forwards missing"),
        (lambda whole: whole["subject"].update(codes="many"), "expected int at .*codes, found 'many'"),
        (lambda whole: whole["gallery"][0]["pictures"].update(ar="../x.png"), "expected a picture in"),
        (lambda whole: whole["gallery"][0]["pictures"].update(ar="gallery/no.png"), "expected a picture at"),
        (lambda whole: whole.update(contract="0" * 12), "expected the log samples-000000000000"),
    ],
)
def test_damaged_results_are_one_line(copy, spoil, message):
    path = copy / "results.json"
    whole = json.loads(path.read_text())
    spoil(whole)
    path.write_text(json.dumps(whole))
    with pytest.raises(RowcastError, match=message):
        render_again(copy)


def test_no_benchmark_is_one_line(tmp_path):
    with pytest.raises(RowcastError, match=r"expected the results of a benchmark at .*python -m eval"):
        render_again(tmp_path)


def scored(decoder: DecoderResult) -> DecoderResult:
    """With the scores that papers print."""
    value = Interval(value=0.5, low=0.4, high=0.6, n=9)
    delta = Delta(value=-0.01, low=-0.02, high=0.0, n=9, detectable=0.02, margin=0.02, equivalent=True)
    scores = {
        name: Score(value=value, delta=delta) for name in ("geneval/hf", "clip/l14", "odd_one", "dpg/blip")
    }
    quality = replace(decoder.quality, scores=scores, frechet_real=Frechet(value=12.5, n=9))
    return replace(decoder, name="a_b%|<x>", quality=quality)


def test_tables_have_the_papers_columns_in_the_papers_order(run):
    results = replace(run[0], decoders=[scored(decoder) for decoder in run[0].decoders])
    assert list(paper_columns(results))[:8] == [
        "Method",
        "Lossless",
        "Step x",
        "Latency x",
        "Fréchet to real",
        "CLIP-score (l14)",
        "DPG % (blip)",
        "GenEval % (hf)",
    ]
    assert markdown_table(results).count("a_b%\\|&lt;x>") == 4
    text = latex_table(results)
    assert text.count(r"a\_b\%|<x> & ") == 4
    assert all(line.count("&") == text.splitlines()[4].count("&") for line in text.splitlines()[6:10])
    [row, *_] = csv.DictReader(csv_table(results).splitlines())
    assert float(row["geneval/hf_delta_detectable"]) == 0.02
    assert row["geneval/hf_delta_equivalent"] == "True"
    assert float(row["speedup"]) == results.decoders[0].speedup.value


def test_verdicts_of_deltas():
    def delta(low, high, equivalent):
        return Delta(value=0.0, low=low, high=high, n=9, detectable=1.0, margin=1.0, equivalent=equivalent)

    assert verdict(delta(-0.1, 0.1, True)) == "yes"
    assert verdict(delta(1.0, 2.0, False)) == "differs"
    assert verdict(delta(-1.0, 2.0, False)) == "undecided"


def test_columns_keep_their_protocol_and_an_unknown_one_has_no_margin():
    assert column("geneval/mask2former-hf").title == "GenEval % (mask2former-hf)"
    assert column("geneval/x").margin == KNOWN["geneval"].margin == 0.02
    assert column("novel").margin is None
    assert ordered({"zz", "garment", "clip/a", "nll"}) == ["nll", "clip/a", "garment", "zz"]


def point(name, x, y):
    return Point(name=name, lossless=True, x=float(x), y=y, low=y - 0.1, high=y + 0.1, tip=name)


def test_front_has_what_nothing_beats_in_cost_and_nearness_to_the_baseline():
    points = [point("ar", 100, 5.0), point("good", 40, 5.1), point("bad", 50, 5.5), point("low", 20, 4.0)]
    assert [p.name for p in front(points, "ar")] == ["low", "good", "ar"]


def test_labels_never_cover_each_other_and_the_front_is_named_first():
    points = [point("ar", 100, 5.0), *(point(f"decoder_{index}", 50, 5.5) for index in range(40))]
    names = re.findall(r'class="name"[^>]*>([^<]+)<', tradeoff_plot(points, "ar", "x", "y"))
    assert "ar" in names
    assert "decoder_0" in names
    assert len(names) < 41


def test_the_log_says_what_the_results_say(run):
    results, folder = run
    images, scores = {}, {}
    read_into(folder / f"samples-{results.contract}.jsonl", images, scores)
    ssd = [value["nll"] for key, value in scores.items() if key[0] == "ssd"]
    assert len(ssd) == 6
    assert {image.category for image in images.values()} == {"a", "b"}
    # Prompts with two images count once: the mean of the prompts' means.
    by_prompt = {}
    for key, value in scores.items():
        if key[0] == "ssd":
            by_prompt.setdefault(key[1], []).append(value["nll"])
    mean = sum(sum(values) / len(values) for values in by_prompt.values()) / len(by_prompt)
    assert results.decoders[1].quality.nll.value == pytest.approx(mean)
