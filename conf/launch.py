"""Runs a job from the command line: composes its config with Hydra, checks it, reports errors in one line.

Used by every `__main__.py`. Heavy libraries are imported by the job, so that `--help` and mistakes answer
at once. `key=value` sets an option, `group=name` and `+group=name` choose a group's file.
"""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from backbones.errors import RowcastError
from conf.check import FOLDER, choices, require_choice, typed
from conf.words import prepare

BAD_INPUT = 2
INTERRUPTED = 130

T = TypeVar("T")


def launch(
    config_name: str,
    schema: type[T],
    job: Callable[[T], None],
    command: str = "",
    expand: Callable[[list[str]], list[str]] = list,
) -> None:
    """Runs `job` with the config `config_name` and the overrides of the command line, then exits.

    Args:
        config_name: the job's YAML file.
        schema: its typed form.
        job: what to run.
        command: what stood before the overrides, where a program has several commands.
        expand: writes out words of the command line that stand for several.

    Exit status: 0; 2 for what the user can put right (one line on stderr); 130 after Ctrl-C. Any other
    exception is a defect and shows its traceback.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"
    status, words = 0, sys.argv[1:]

    def run(config: DictConfig) -> None:
        nonlocal status
        sys.argv[1:] = words  # as they were written, for messages and records
        try:
            job(typed(config, schema))
        except (RowcastError, OmegaConfBaseException, KeyboardInterrupt) as error:
            status = _report(error, command)  # here, since Hydra adds lines of its own to what leaves a job

    try:
        if {"-h", "--help"} & set(words):
            print(help_text(config_name, words))
            sys.exit(0)
        sys.argv[1:] = prepare(expand(words), config_name, schema)
        hydra.main(version_base="1.3", config_path=str(FOLDER), config_name=config_name)(run)()
    except (RowcastError, HydraException, OmegaConfBaseException, KeyboardInterrupt) as error:
        status = _report(error, command)
    sys.exit(status)


def help_text(config_name: str, words: Sequence[str] = ()) -> str:
    """The commented YAML files of a job: its options, their defaults and what they mean.

    Args:
        config_name: the job's YAML file.
        words: the command line; of a group that it chooses (`model=lumina`), the chosen file is shown.
    """
    sections = []
    chosen: dict[str, str] = {}
    for word in words:
        given, _, value = word.lstrip("+").partition("=")
        chosen[given] = value
    title, _, body = (FOLDER / f"{config_name}.yaml").read_text().partition("\ndefaults:\n")
    for line in body.splitlines():
        if not line.startswith("  - "):
            break
        name, _, choice = line.removeprefix("  - ").partition(": ")
        if name in ("process", "_self_"):
            continue
        option = name.rpartition("/")[2]
        if choice and option in chosen:
            choice = chosen[option]
            require_choice(name, choice)
        if choice == "null":
            sections.append(f"{name}:  # none, or choose with {name}= {', '.join(choices(name))}")
            continue
        file = FOLDER / (f"{name}/{choice}.yaml" if choice else f"{name}.yaml")
        lines = file.read_text().splitlines()
        known = f"  # choose with {option}= {', '.join(choices(name))}" if choice else ""
        if lines[0] == "# @package _global_":  # holds options of several groups, with their full names
            sections.append("\n".join([known.strip(), *lines[1:]]))
        else:
            shown = [f"  {line}" for line in lines if not line.startswith("# @package")]
            sections.append("\n".join([f"{name}:{known}", *shown]))
    options = [line for line in body.splitlines() if not line.startswith("  - ")]
    intro = "\n".join(line.removeprefix("#").removeprefix(" ") for line in title.splitlines())
    return "\n\n".join(
        [intro, "Options, set with name.of.option=value:", *sections, "\n".join(options).strip()]
    )


def _report(error: BaseException, command: str = "") -> int:
    """Prints the one line for the user and returns the exit status."""
    if isinstance(error, KeyboardInterrupt):
        # `resume=false` would start anew, a checkpoint's path would go back to it.
        options = [word for word in sys.argv[1:] if not word.startswith("resume=")]
        words = ["python", "-m", _program(), *([command] if command else []), *options]
        print(f"\ninterrupted: nothing finished is lost; to go on, run {shlex.join(words)}", file=sys.stderr)
        return INTERRUPTED
    message = " ".join(str(error).split())
    if isinstance(error, HydraException):
        message = message.partition(" To append")[0]  # advice that `typed` would refuse
    print(f"{_program()}: {message}", file=sys.stderr)
    return BAD_INPUT


def _program() -> str:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec.name.removesuffix(".__main__") if spec else sys.argv[0]
