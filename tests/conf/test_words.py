"""What a user writes on the command line reaches the job as it was meant, or is refused by name."""

import re
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from backbones.errors import RowcastError
from conf.check import FOLDER, typed
from conf.launch import INTERRUPTED, _report
from conf.schema import DecodingJob, TrainJob
from conf.words import prepare

pytestmark = pytest.mark.unit


def decoding(*words) -> DecodingJob:
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        return typed(compose("decoding", prepare(words, "decoding", DecodingJob)), DecodingJob)


@pytest.mark.parametrize(
    "text",
    [
        "a red sneaker on blue",
        "what's this",
        'a "red" <pad> hat',
        "a=b",
        "my dir(1)/x",
        "[a",
        "{",
        "caf\u00e9 \u5317; 5% & more?",
        "ends in '\\",
        "two\nlines",
    ],
)
def test_a_plain_text_is_itself(text):
    job = decoding(f"prompt={text}", f"out={text}.png")
    assert (job.prompt, job.out) == (text, f"{text}.png")


def test_a_tilde_is_the_home_folder():
    assert decoding("prompt=x", "out=~/x.png").out == str(Path.home() / "x.png")


def test_repeated_prompts_are_a_list():
    job = decoding("prompt=a red hat", "seed=3", "prompt=what's this", 'prompt="a, b"', "prompt=")
    assert (job.prompt, job.seed) == (["a red hat", "what's this", "a, b", ""], 3)


def test_the_last_part_of_an_option_will_do_where_it_is_the_only_one():
    assert prepare(["path=x", "weights=random"], "decoding", DecodingJob) == [
        "model.path=x",
        "model.weights=random",
    ]
    assert prepare(["seed=1"], "decoding", DecodingJob) == ["seed=1"]
    with pytest.raises(RowcastError, match="unknown option images: did you mean"):
        prepare(["images=2"], "train", TrainJob)


MISTAKES = {
    ("seed=1", "seed=2"): "expected option seed once, found seed=1 and seed=2: leave one of them out",
    ("decoder=ar", "+decoder=ssd"): "expected option decoder once, found decoder=ar and decoder=ssd",
    ("sneaker.png",): "expected option=value, found 'sneaker.png'",
    ("a b=c",): "expected option=value, found 'a b=c'",
    ("prompt=a, b",): "option prompt: a text with commas needs quotes, 'prompt=\"a, b\"'",
    ("decoder=ar", "decoder.rounds=2"): "decoder=ar has no option decoder.rounds: it has none",
    ("decoder=ssd_exact", "decoder.rounds=2"): "no option decoder.rounds: it has decoder.window",
    ("decoder.window=2",): "decoder=ssd has no option decoder.window: it has decoder.rounds, decoder.rows",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_are_named(words):
    with pytest.raises(RowcastError, match=re.escape(MISTAKES[words])):
        prepare(words, "decoding", DecodingJob)


@pytest.mark.parametrize("word", ["heads=eagle", "+heads=eagle"])
def test_heads_are_a_group_of_training_and_a_folder_elsewhere(word):
    """To Hydra an option and a group of one name are the same, so the group has another name there."""
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        words = prepare([word, "heads.hidden=3"], "train", TrainJob)
        job = typed(compose("train", words), TrainJob)
    assert words == ["train/heads=eagle", "heads.hidden=3"]
    assert (job.heads["name"], job.heads["hidden"]) == ("eagle", 3)
    assert prepare(["heads=eagle"], "decoding", DecodingJob) == ["heads=eagle"]
    assert decoding("prompt=x", "heads=some/folder").heads == "some/folder"


HEAD_MISTAKES = {
    ("heads=nosuch",): "unknown heads 'nosuch': choose heads= one of eagle, mtp, ssd",
    (
        "heads=mtp",
        "heads.vertical=1",
    ): "heads=mtp has no option heads.vertical: it has heads.ahead",
    ("heads.ahead=1",): "heads=ssd has no option heads.ahead: it has heads.horizontal, heads.vertical",
    ("heads=mtp", "heads=eagle"): "expected option heads once, found heads=mtp and heads=eagle",
}


@pytest.mark.parametrize("words", HEAD_MISTAKES)
def test_mistakes_about_heads_are_named(words):
    with pytest.raises(RowcastError, match=re.escape(HEAD_MISTAKES[words])):
        prepare(words, "train", TrainJob)


def test_flags_stay():
    several = ["-m", "decoder=ar,ssd", "decoder.rounds=2"]
    assert prepare(several, "decoding", DecodingJob) == several
    assert prepare(["-m", "trainer.steps=1,2"], "train", TrainJob) == ["-m", "trainer.steps=1,2"]
    assert prepare(["-m", "heads=ssd,mtp"], "train", TrainJob) == ["-m", "train/heads=ssd,mtp"]


def test_what_to_run_after_an_interrupt_neither_starts_anew_nor_goes_back(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["train", "resume=false", "folder=my runs"])
    assert _report(KeyboardInterrupt()) == INTERRUPTED
    error = capsys.readouterr().err
    assert error.endswith(" 'folder=my runs'\n")
    assert "resume" not in error
