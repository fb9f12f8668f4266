"""The settings in conf/experiment: they compose, say what is theirs, and are found by those who look."""

import pytest
from hydra import compose, initialize_config_dir

from backbones.errors import RowcastError
from conf.check import FOLDER, choices, typed
from conf.launch import help_text
from conf.schema import DataJob, TrainJob
from conf.words import prepare

pytestmark = pytest.mark.unit


def job(*words):
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        return typed(compose("train", prepare(list(words), "train", TrainJob)), TrainJob)


@pytest.mark.parametrize("name", choices("experiment"))
def test_every_experiment_composes_with_either_spelling(name):
    assert job(f"+experiment={name}") == job(f"experiment={name}")


@pytest.mark.parametrize(("model", "vertical"), [("janus", 1), ("lumina", 2), ("emu3", 2)])
def test_the_paper_has_a_setting_for_each_family(model, vertical):
    made = job(f"+experiment=paper_{model}", "path=/models/mine")
    assert (made.model.name, made.model.path) == (model, "/models/mine")
    assert (made.rollouts.images, made.heads["horizontal"], made.heads["vertical"]) == (60_000, 5, vertical)
    assert made.heads["correction"] == 0
    assert made.folder == f"outputs/{model}/paper"


def test_what_is_written_after_an_experiment_counts():
    made = job("+experiment=paper", "+model=anole", "trainer.steps=7", "rollouts.images=9")
    assert (made.model.name, made.trainer.steps, made.rollouts.images) == ("anole", 7, 9)


def test_help_lists_them_and_shows_the_chosen_one():
    assert f"choose with experiment= {', '.join(choices('experiment'))}" in help_text("train")
    assert "60K images" in help_text("train", ["+experiment=paper"])


def test_mistakes_are_named():
    with pytest.raises(RowcastError, match="unknown experiment 'papr': choose experiment= one of"):
        prepare(["+experiment=papr"], "train", TrainJob)
    with pytest.raises(RowcastError, match="unknown option experiment"):
        prepare(["experiment=paper"], "data", DataJob)
