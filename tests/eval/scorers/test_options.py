"""The options of the four commands, and the page that shows them."""

import re
import shlex

import pytest
from hydra import compose, initialize_config_dir

from backbones.errors import RowcastError
from conf.check import FOLDER, option_names
from conf.launch import help_text
from conf.scoring import ClipJob, DpgJob, FidJob, GenEvalJob
from eval.scorers.__main__ import COMMANDS, main
from eval.scorers.clip_scorer import PRESETS as CLIP_PRESETS
from eval.scorers.fid import PRESETS as FID_PRESETS
from tests.eval.scorers.test_jobs import job
from tests.process import ROOT

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", COMMANDS)
def test_yaml_and_schema_have_the_same_options_and_each_is_commented(name):
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        config = compose(name)
    assert set(config) == set(option_names(COMMANDS[name]))
    shown = help_text(name)
    for option in config:
        assert any(line.startswith(f"{option}:") and "#" in line for line in shown.splitlines()), option


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("geneval", [], "option images is missing: add images="),
        ("geneval", ["images=x", "max_overlap=2"], "option max_overlap: expected 0 to 1"),
        ("clip", ["images=x", "preset=sdj"], "option preset: expected one of clean, sjd, lantern"),
        ("dpg", ["questions=x", "tiles=3"], "option tiles: expected 1 or 4"),
        ("fid", ["images=x", "referance=y"], "unknown option referance: did you mean reference"),
    ],
)
def test_mistakes(name, words, message):
    with pytest.raises(RowcastError, match=message):
        job(name, *words)


PAGE = (ROOT / "docs" / "scorers.md").read_text()


@pytest.mark.parametrize("command", re.findall(r"python -m eval\.scorers (\w+ [^`\n]+)", PAGE))
def test_commands_of_the_page_are_accepted(command):
    name, *words = shlex.split(command)
    job(name, *words)


def test_the_page_knows_every_protocol():
    for name in ("geneval/hf-mask2former", "geneval/shapes", "dpg/mplug"):
        assert f"`{name}`" in PAGE
    for preset in CLIP_PRESETS:
        assert f"`clip/{preset}`" in PAGE
        assert f"`fid/{preset}`" in PAGE
    assert set(CLIP_PRESETS) == set(FID_PRESETS)


def test_jobs_are_of_their_schemas():
    assert {"geneval": GenEvalJob, "dpg": DpgJob, "clip": ClipJob, "fid": FidJob} == COMMANDS


def test_commands_are_named(capsys):
    main(["--help"])
    shown = capsys.readouterr().out
    assert all(f"eval.scorers {name} " in shown for name in COMMANDS)
    with pytest.raises(SystemExit) as left:
        main(["fad"])
    assert left.value.code == 2
    assert "expected one of geneval, dpg, clip, fid, found 'fad'" in capsys.readouterr().err
