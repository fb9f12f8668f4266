"""What the README tells a reader to type is accepted, and the files it names exist."""

import re
import shlex
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from backbones.errors import RowcastError
from conf.check import FOLDER, typed
from conf.schema import (
    BackboneJob,
    CompareJob,
    DataJob,
    DecodingJob,
    DoctorJob,
    EvalJob,
    InspectJob,
    PublishJob,
    ReportJob,
    TrainJob,
    VerifyJob,
)
from conf.words import prepare
from train.words import named

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
JOBS = {
    "train": ("train", TrainJob),
    "data": ("data", DataJob),
    "decoding": ("decoding", DecodingJob),
    "eval report": ("report", ReportJob),
    "eval doctor": ("doctor", DoctorJob),
    "eval compare": ("compare", CompareJob),
    "eval": ("eval", EvalJob),
    "backbones check": ("backbones", BackboneJob),
    "checkpoints publish": ("publish", PublishJob),
    "checkpoints inspect": ("inspect", InspectJob),
    "checkpoints verify": ("verify", VerifyJob),
}
COMMANDS = sorted(set(re.findall(rf"python -m ((?:{'|'.join(JOBS)})(?: [^`#\n&|]*|(?=[`\n])))", README)))
OPTIONS = sorted(set(re.findall(r"`((?:decoder|trainer|model)[=.][^`]+)`", README)))


def check(program: str, words: list[str]) -> None:
    config, schema = JOBS[program]
    words = named(words) if program == "train" else words
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        typed(compose(config, prepare(words, config, schema)), schema)


def test_there_is_something_to_check():
    assert len(COMMANDS) >= 8
    assert len(OPTIONS) >= 5


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_accepted(command):
    program = next(program for program in JOBS if command.startswith(program))
    check(program, shlex.split(command.removeprefix(program)))


@pytest.mark.parametrize("options", OPTIONS)
def test_every_option_is_accepted(options):
    program = "train" if options.startswith("trainer") else "decoding"
    check(program, [*shlex.split(options), *(['prompt="a coat"'] if program == "decoding" else [])])


def test_a_misspelt_command_would_be_found():
    with pytest.raises(RowcastError, match=r"trainer\.steps"):
        check("train", ["trainer.step=2000"])


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)]+)\)", README))
def test_every_linked_file_exists(path):
    assert (ROOT / path).is_file()
