"""The options of suites, prompt sets, parts and the two commands beside the benchmark."""

import re

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from backbones.errors import RowcastError
from conf.check import FOLDER, choices, option_names, typed
from conf.launch import help_text
from conf.schema import CompareJob, EvalJob, ReportJob
from conf.words import prepare
from eval.job import check

pytestmark = pytest.mark.unit

JOBS = {"eval": EvalJob, "report": ReportJob, "compare": CompareJob}


def composed(name, *words):
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        return compose(name, prepare(words, name, JOBS[name]))


@pytest.mark.parametrize("name", ["report", "compare"])
def test_yaml_and_schema_have_the_same_options_and_each_is_commented(name):
    config = composed(name)
    assert set(config) == set(option_names(JOBS[name]))
    assert OmegaConf.missing_keys(config) <= {"folder", "before", "after"}
    for option in config:
        assert re.search(rf"^{option}:.*#", help_text(name), re.MULTILINE), option


def test_suites_take_what_they_say():
    taken = {
        suite: {
            name: (share.prompts, share.samples)
            for name in ("smoke", "geneval", "dpg", "parti", "coco")
            if (share := getattr(typed(composed("eval", f"suite={suite}"), EvalJob).sets, name)).prompts != 0
        }
        for suite in choices("suite")
        if suite in ("smoke", "quick", "paper")
    }
    assert taken == {
        "smoke": {"smoke": (None, 1)},
        "quick": {"geneval": (120, 1), "dpg": (100, 1)},
        "paper": {"geneval": (None, 4), "dpg": (None, 4), "parti": (None, 1), "coco": (None, 1)},
    }
    assert "choose with suite= " in help_text("eval")


def test_the_smoke_suite_is_24_images_of_ten_garments():
    checked = check(typed(composed("eval", "suite=smoke"), EvalJob))
    assert len(checked.items) == len(checked.prompts) == 24
    assert len({item.prompt.category for item in checked.items}) == 10
    assert checked.files["smoke"]


def test_without_sets_the_model_has_its_own_list_by_garment():
    items = check(typed(composed("eval", "benchmark.images=3", "benchmark.quality_images=20"), EvalJob)).items
    assert len({item.prompt.text for item in items}) == 20
    assert len({item.prompt.category for item in items}) > 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["shard=0/2"], "option shard: expected auto, or a part such as 2/8, found '0/2'"),
        (["shard=3/2"], "option shard: expected auto"),
        (["suite=huge"], "unknown suite 'huge': choose suite= one of"),
        (["suite=quick"], r"expected the prompts of geneval in .*set sets\.fetch=true"),
        (["suite=paper", "sets.geneval.prompts=0"], r"expected sets\.dpg\.path=<dpg_bench\.csv>"),
        (["sets.genevl.prompts=2"], r"did you mean sets\.geneval\.prompts"),
        (["suite=smoke", "benchmark.prompts=docs/prompts.txt"], "expected prompt sets or benchmark.prompts"),
    ],
)
def test_mistakes(words, message):
    with pytest.raises(RowcastError, match=message):
        check(typed(composed("eval", *words), EvalJob))
