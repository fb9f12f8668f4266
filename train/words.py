"""`heads=<a bundle>` on the command line of training: from the bundle to the options of its heads."""

from collections.abc import Sequence
from pathlib import Path

from conf.check import FOLDER, choices
from conf.schema import TrainJob
from conf.words import in_full, prepare

START, HEADS, RUN = "start_from", "heads", "folder"
CONTINUED = "outputs/${model.name}/continued"
"""Folder of such a run; the one that trained the bundle may be in the usual place."""


def expand(words: Sequence[str]) -> list[str]:
    """The words with the kind and the options of the heads that a bundle has, where one is named.

    `heads=me/pocket-heads` becomes `start_from=me/pocket-heads heads=ssd heads.horizontal=5 ...`. What the
    user has written of these stays, so that the job can refuse it by name.

    Raises:
        RowcastError: if there is no such bundle.
    """
    full = [in_full(word, TrainJob) for word in named(words)]
    places = [place for word in full if (place := _start(word))]
    if not places:
        return list(words)
    given = {word.lstrip("+").partition("=")[0] for word in full}
    full += [] if RUN in given else [f"{RUN}={CONTINUED}"]
    folder, resume = _run(full)

    from train.origin import origin_of  # heavy, and rarely needed

    heads = origin_of(places[-1], folder, resume).heads
    kind = heads["name"]
    if HEADS not in given:
        full.append(f"{HEADS}={kind}")
    elif f"{HEADS}={kind}" not in [word.lstrip("+") for word in full]:
        return full  # another kind, whose options these are not
    options = {f"{HEADS}.{name}": value for name, value in heads.items() if name != "name"}
    return full + [
        f"{name}={'null' if value is None else value}" for name, value in options.items() if name not in given
    ]


def named(words: Sequence[str]) -> list[str]:
    """The words with `start_from=...` for `heads=...` where that is no kind but a folder or a name."""
    return [f"{START}={word.partition('=')[2]}" if _is_place(word) else word for word in words]


def _is_place(word: str) -> bool:
    name, _, value = word.lstrip("+").partition("=")
    known = choices(f"train/{HEADS}")
    return name == HEADS and value not in known and ("/" in value or Path(value).expanduser().is_dir())


def _start(word: str) -> str | None:
    """The bundle that a word names, if any."""
    name, _, value = word.partition("=")
    return value if name == START and value != "null" else None


def _run(words: Sequence[str]) -> tuple[Path, str]:
    """The folder of the run, and whether it goes on."""
    from hydra import compose, initialize_config_dir

    options = [word for word in words if not word.startswith(("-", "hydra", f"{HEADS}."))]
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        config = compose("train", prepare(options, "train", TrainJob))
    resume = config.resume
    return Path(config.folder), "false" if resume is False else str(resume)
