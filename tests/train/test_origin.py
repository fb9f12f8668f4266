"""`python -m train heads=<a bundle>`: its kind, options and weights; noted; and not needed to resume."""

import json
import shutil

import pytest
import torch
from hydra import compose, initialize_config_dir

from backbones.errors import RowcastError
from backbones.registry import load_backbone
from checkpoints.bundle import load_bundle
from checkpoints.config import read_config
from conf.check import FOLDER, typed
from conf.schema import TrainJob
from conf.words import prepare
from tests.backbones.checkpoints.families import SUBJECTS
from tests.checkpoints.bundles import random_heads, save
from tests.train.session import SETTINGS
from train import run
from train.job import train
from train.saving import checkpoint_name, read_heads
from train.words import expand

pytestmark = pytest.mark.integration

SMALL = {"trainer.steps": 2, "trainer.warm_up": 1, "trainer.save_every": 2, "rollouts.images": 2}


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """A tiny model, heads for it, and the words that name the model and a short training."""
    folder = tmp_path_factory.mktemp("origin")
    checkpoint = folder / "model"
    checkpoint.mkdir()
    options = SUBJECTS["janus"].write(checkpoint)
    backbone = load_backbone("janus", **options, device="cpu", dtype="float32")
    save(folder / "bundle", random_heads(backbone, "mtp", ahead=2, hidden=0.5), backbone)
    (folder / "prompts.txt").write_text("\n".join(SUBJECTS["janus"].prompts))
    words = {word.partition("=")[0]: word.partition("=")[2] for word in SETTINGS} | SMALL
    words |= {f"model.{name}": value for name, value in options.items()}
    words |= {"model.device": "cpu", "model.dtype": "float32", "rollouts.folder": folder / "rollouts"}
    words |= {"rollouts.prompts": folder / "prompts.txt", "folder": folder / "run"}
    return folder, backbone, ["model=janus", *(f"{name}={value}" for name, value in words.items())]


def job(*words):
    words = prepare(expand(words), "train", TrainJob)
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        return typed(compose("train", words), TrainJob)


def test_the_bundle_decides_kind_and_options(given):
    folder, _, words = given
    found = job(*words, f"heads={folder / 'bundle'}")
    assert found.heads == {"name": "mtp", "ahead": 2, "hidden": 0.5}
    assert found.start_from == str(folder / "bundle")
    assert found.benchmark.decoders == ["ar", "mtp", "mtp_strict"]
    without = [word for word in words if not word.startswith("folder=")]
    assert job(*without, f"heads={folder / 'bundle'}").folder == "outputs/janus/continued"
    assert expand(["heads=mtp", "heads.ahead=3"]) == ["heads=mtp", "heads.ahead=3"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["heads.ahead=3"], "expected heads.ahead=2 as in .*, found heads.ahead=3: leave the option out"),
        (["ahead=3"], "expected heads.ahead=2 as in .*, found heads.ahead=3: leave the option out"),
        (["heads=ssd"], "expected heads=mtp as in .*, found heads=ssd"),
    ],
)
def test_conflicting_options_are_refused_by_name(given, more, message):
    folder, _, words = given
    with pytest.raises(RowcastError, match=message):
        train(job(*words, f"start_from={folder / 'bundle'}", *more))


def test_a_bundle_that_is_not_there_is_named(given):
    with pytest.raises(RowcastError, match="nothing/here"):
        job(*given[2], f"heads={given[0]}/nothing/here")


def test_weights_go_on_from_the_bundle_which_no_resume_needs(given):
    folder, backbone, words = given
    words = [*words, f"heads={folder / 'bundle'}"]
    first = load_bundle(folder / "bundle", backbone).bank.state_dict()
    made = train(job(*words))
    checkpoints = folder / "run" / run.CHECKPOINTS
    start = read_heads(checkpoints / checkpoint_name(0))
    assert all(torch.equal(start[name], weight) for name, weight in first.items())
    config, sha256 = read_config(made), read_config(folder / "bundle").weights_sha256
    assert config.training["started_from"] == {"heads": None, "weights_sha256": sha256}
    assert config.weights_sha256 != sha256, "it has learnt"
    contract = json.loads((folder / "run" / run.CONTRACT).read_text())
    assert contract["start_from.weights_sha256"] == sha256

    (folder / "bundle").rename(folder / "elsewhere")
    (checkpoints / checkpoint_name(2)).unlink()
    assert read_config(train(job(*words))).weights_sha256 == config.weights_sha256
    with pytest.raises(RowcastError, match="bundle"):
        job(*words, "resume=false")
    with pytest.raises(RowcastError, match=r"start_from.place=.*now None"):
        train(job(*words[:-1], "heads=mtp", "heads.ahead=2", "heads.hidden=0.5"))

    shutil.rmtree(checkpoints)  # killed before the first one: the weights are needed again, and the same ones
    save(folder / "bundle", random_heads(backbone, "mtp", seed=1, ahead=2, hidden=0.5), backbone)
    with pytest.raises(RowcastError, match=r"expected the weights .* start anew with resume=false"):
        train(job(*words))
