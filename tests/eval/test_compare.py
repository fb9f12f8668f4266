"""Two benchmarks against each other: equal ones, worse ones, and ones that must not be compared."""

import json
import shutil

import pytest

from backbones.errors import RowcastError
from conf.schema import CompareJob
from eval.__main__ import compare as command
from eval.columns import column
from eval.compare import FORWARDS, compare, worse
from eval.comparison import comparison_table
from tests.eval.tiny import run_tiny

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    folder = tmp_path_factory.mktemp("before")
    run_tiny(folder, images=3, quality=8, names=("ar", "ssd"))
    return folder


def changed(before, tmp_path, change):
    """A copy whose log lines went through `change`."""
    folder = shutil.copytree(before, tmp_path / "after")
    [path] = folder.glob("samples-*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        change(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def nothing(line):
    pass


def more_forwards(line):
    if line.get("image", {}).get("decoder") == "ssd":
        line["image"]["forwards"] += 1


def worse_likelihood(line):
    if "scores" in line and line["key"][0] == "ssd":
        line["scores"]["nll"] += 0.5


def better(line):
    if "scores" in line and line["key"][0] == "ssd":
        line["scores"]["nll"] -= 0.5


def judge(before, tmp_path, change):
    found = compare(before, changed(before, tmp_path, change))
    return found, {(verdict.decoder, verdict.figure.name): verdict for verdict in found.verdicts}


def test_the_same_is_the_same(before, tmp_path):
    found, verdicts = judge(before, tmp_path, nothing)
    assert found.regressions == []
    assert found.images == 16
    assert {verdict.text for key, verdict in verdicts.items() if key[1] != "latency"} == {"same"}
    assert verdicts["ssd", "latency"].text == "shown only"


@pytest.mark.parametrize(("change", "figure"), [(more_forwards, "forwards"), (worse_likelihood, "nll")])
def test_what_is_worse_is_named_and_sets_the_exit_status(before, tmp_path, capsys, change, figure):
    found, _ = judge(before, tmp_path, change)
    assert [(verdict.decoder, verdict.figure.name) for verdict in found.regressions] == [("ssd", figure)]
    with pytest.raises(SystemExit) as status:
        command(CompareJob(before=str(before), after=str(tmp_path / "after"), forwards_margin=0.02))
    assert status.value.code == 1
    shown = capsys.readouterr().out
    assert f"regressions: ssd {figure}" in shown
    assert json.loads(shown.splitlines()[-1])["regressions"] == [f"ssd {figure}"]


def test_a_margin_forgives(before, tmp_path):
    folder = changed(before, tmp_path, more_forwards)
    assert compare(before, folder, forwards_margin=0.2).regressions == []
    command(CompareJob(before=str(before), after=str(folder), forwards_margin=0.2))


def test_better_is_no_regression(before, tmp_path):
    found, verdicts = judge(before, tmp_path, better)
    assert found.regressions == []
    assert verdicts["ssd", "nll"].text == "better"
    assert "-0.500 (-0.500 to -0.500)" in comparison_table(found)


def test_forwards_change_is_a_ratio(before, tmp_path):
    found, verdicts = judge(before, tmp_path, more_forwards)
    assert verdicts["ssd", "forwards"].figure.text(verdicts["ssd", "forwards"].after) == "12.0"
    table = comparison_table(found)
    assert "+9.1 %" in table
    told = {(test["decoder"], test["figure"]): test for test in json.loads(table.splitlines()[-1])["tests"]}
    assert told["ssd", "forwards"]["after"] == pytest.approx(12.0)


def test_a_suspicion_is_no_regression():
    """Half of the prompts far worse, half far better: the mean may be chance."""
    assert worse([1.0, -0.9] * 8, ["a"] * 16, column("nll")) > 0.1
    assert worse([1.0] * 16, ["a"] * 16, column("nll")) < 0.001
    assert worse([1.0] * 16, ["a"] * 16, column("clip")) > 0.99, "higher is better"
    assert worse([9.0], ["a"], FORWARDS) == 1.0


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("sampling", "guidance"), 9.0, "of the same sampling, found .*9.0"),
        (("subject", "fingerprint"), "other", "of the same backbone"),
        (("plan", "seed"), 3, r"of the same benchmark\.seed"),
    ],
)
def test_unequal_laws_are_refused(before, tmp_path, where, value, message):
    folder = changed(before, tmp_path, nothing)
    path = folder / "results.json"
    whole = json.loads(path.read_text())
    whole[where[0]][where[1]] = value
    path.write_text(json.dumps(whole))
    with pytest.raises(RowcastError, match=message):
        compare(before, folder)


def test_no_common_image_is_refused(before, tmp_path):
    folder = changed(before, tmp_path, lambda line: line.get("image", {}).update(prompt="other"))
    with pytest.raises(RowcastError, match="found none: give both the same"):
        compare(before, folder)
