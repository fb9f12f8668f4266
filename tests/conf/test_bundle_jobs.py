"""The options of the commands about bundles, and a group that may be left out."""

import re

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from backbones.errors import RowcastError
from conf.check import FOLDER, option_names, typed
from conf.launch import INTERRUPTED, _report, help_text
from conf.schema import InspectJob, Model, PublishJob, VerifyJob
from conf.words import prepare

pytestmark = pytest.mark.unit

JOBS = {"publish": PublishJob, "inspect": InspectJob, "verify": VerifyJob}


def composed(name, *words):
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        return compose(name, prepare(words, name, JOBS[name]))


def job(name, *words):
    return typed(composed(name, *words), JOBS[name])


@pytest.mark.parametrize("name", JOBS)
def test_yaml_and_schema_have_the_same_options_and_each_is_commented(name):
    config = composed(name)
    wanted = {option for option in option_names(JOBS[name]) if "." not in option}
    assert set(config) == wanted - {"model"}, "a group that was not chosen is not there"
    assert OmegaConf.missing_keys(config) <= {"bundle", "repo"}
    shown = help_text(name)
    for option in config:
        assert re.search(rf"^{option}:.*#", shown, re.MULTILINE), option


def test_a_model_is_chosen_or_there_is_none():
    assert job("verify", "bundle=x").model is None
    for words in (["+model=pocket"], ["model=pocket"], ["model=pocket", "path=/x", "model.dtype=bfloat16"]):
        chosen = job("verify", "bundle=x", *words).model
        assert isinstance(chosen, Model)
        assert chosen.name == "pocket"
    assert (chosen.path, chosen.dtype) == ("/x", "bfloat16")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model=nope"], "unknown model 'nope': choose model= one of"),
        (["model=pocket", "model.pth=3"], "unknown option model.pth: did you mean model.path"),
        (["model=pocket", "model.dtype=float64"], "option model.dtype: expected one of float32, bfloat16"),
        (["model=pocket", "model.device=[1]"], "option model.device: expected str, found"),
        (["repo=a/b"], "unknown option repo: did you mean"),
    ],
)
def test_mistakes(words, message):
    with pytest.raises(RowcastError, match=message):
        job("verify", "bundle=x", *words)


def test_names_on_a_hub_need_no_quotes():
    assert job("inspect", "bundle=me/heads@v1").bundle == "me/heads@v1"
    assert job("publish", "bundle=~/x", "repo=me/heads").repo == "me/heads"


def test_what_was_interrupted_goes_on_with_its_command(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["x", "bundle=x", "repo=a/b"])
    assert _report(KeyboardInterrupt(), "publish") == INTERRUPTED
    assert " publish bundle=x repo=a/b" in capsys.readouterr().err
