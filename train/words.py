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
    named = [word for word in words if _is_place(word)]
    if not named:
        return list(words)
    place = named[-1].partition("=")[2]
    full = [in_full(word, TrainJob) for word in words if word not in named]
    given = {word.lstrip("+").partition("=")[0] for word in full}
    full += [f"{START}={word.partition('=')[2]}" for word in named]
    full += [] if RUN in given else [f"{RUN}={CONTINUED}"]
    folder, resume = _run(full)

    from train.origin import origin_of  # heavy, and rarely needed

    heads = origin_of(place, folder, resume).heads
    kind = heads["name"]
    if HEADS not in given:
        full.append(f"{HEADS}={kind}")
    elif f"{HEADS}={kind}" not in [word.lstrip("+") for word in full]:
        return full  # another kind, whose options these are not
    options = {f"{HEADS}.{name}": value for name, value in heads.items() if name != "name"}
    return full + [
        f"{name}={'null' if value is None else value}" for name, value in options.items() if name not in given
    ]


def _is_place(word: str) -> bool:
    """Whether a word names a bundle: `start_from=...`, or `heads=` with no kind but a folder or a name."""
    name, _, value = word.lstrip("+").partition("=")
    if name == START:
        return value not in ("", "null")
    kinds = choices(f"train/{HEADS}")
    return name == HEADS and value not in kinds and ("/" in value or Path(value).expanduser().is_dir())


def _run(words: Sequence[str]) -> tuple[Path, str]:
    """The folder of the run, and whether it goes on."""
    from hydra import compose, initialize_config_dir

    options = [word for word in words if not word.startswith(("-", "hydra", f"{HEADS}."))]
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        config = compose("train", prepare(options, "train", TrainJob))
    resume = config.resume
    return Path(config.folder), "false" if resume is False else str(resume)
