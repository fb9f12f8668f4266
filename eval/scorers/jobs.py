"""The four commands of `python -m eval.scorers`: from options to a result file and lines for the terminal."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from backbones.durable import only_writer
from backbones.errors import RowcastError
from eval.scorers.backends.load import Place
from eval.scorers.build import build_clip, build_dpg, build_geneval
from eval.scorers.log import score_pictures
from eval.scorers.pictures import Picture
from eval.scorers.results import Scores, write_scores
from eval.scorers.scorer import ImageScore, Scorer
from eval.statistics import Interval

Figures = tuple[dict[str, Interval], list[str]]
"""Values by name, and notes."""


def geneval(
    *,
    images: str,
    out: str | None,
    samples: int | None,
    detector: str,
    clip: str,
    max_overlap: float,
    official: str | None,
    batch: int,
    **held: str,
) -> None:
    """Scores a GenEval folder; `held` are device and dtype.

    Raises:
        RowcastError: if a model, a picture or metadata is missing or wrong.
    """
    from eval.scorers.geneval import require_metadata
    from eval.scorers.geneval_scorer import summarise
    from eval.scorers.layouts import read_geneval
    from eval.scorers.parity import agreement, read_official

    pictures = read_geneval(_folder(images), samples)
    verdicts = None if official is None else read_official(_folder(official))
    for picture in pictures:
        require_metadata(picture.metadata, str(picture.path.parents[1]))
    scorer = build_geneval(
        Place(path=detector, option="detector", **held), Place(path=clip, option="clip", **held), max_overlap
    )
    scores, place = _score(scorer, pictures, images, out, batch)
    right = [score.scores[scorer.protocol] for score in scores]
    values, notes = summarise(pictures, right)
    if verdicts is not None:
        compared, note = agreement(pictures, right, verdicts)
        values, notes = values | compared, notes + note
    if max_overlap < 1:
        notes.append(f"max_overlap={max_overlap:g}, where the official evaluator lets boxes overlap")
    _finish(
        place,
        protocol=scorer.protocol,
        images=images,
        contract=scorer.contract,
        figures=(values, notes),
        by_image=_by_image(pictures, scores),
    )


def dpg(
    *,
    images: str | None,
    questions: str,
    answers: str | None,
    out: str | None,
    tiles: int,
    compat: str,
    vqa: str,
    **held: str,
) -> None:
    """Scores a DPG-Bench folder, or the answers of the official script; `held` are device and dtype.

    Raises:
        RowcastError: if the questions, a model, a picture or an answer is missing or wrong.
    """
    from eval.scorers.dpg_files import read_grids, read_questions

    if (images is None) == (answers is None):
        raise RowcastError(
            f"expected images=<folder> or answers=<file>, found {'neither' if images is None else 'both'}: "
            "pass one of them"
        )
    asked = read_questions(_folder(questions))
    if answers is not None:
        _recorded(answers, asked, out, compat)
        return
    assert images is not None
    from eval.scorers.dpg_scorer import answers as hard
    from eval.scorers.dpg_scorer import figures

    pictures = read_grids(_folder(images), asked, tiles)
    scorer = build_dpg(Place(path=vqa, option="vqa", **held), asked)
    scores, place = _score(scorer, pictures, images, out, batch=1)
    answered: dict[str, list[dict[int, float]]] = {}
    for picture, score in zip(pictures, scores, strict=True):
        answered.setdefault(picture.group, []).append(hard(score.detail["yes"]))
    found = figures(asked, answered, _compat(compat))
    _finish(
        place,
        protocol=scorer.protocol,
        images=images,
        contract={**scorer.contract, "compat": compat},
        figures=found,
        by_image=_by_image(pictures, scores),
    )


def clip(*, images: str, out: str | None, preset: str, clip: str | None, batch: int, **held: str) -> None:
    """Scores a folder with captions; `held` are device and dtype.

    Raises:
        RowcastError: if the model, a caption or a picture is missing or wrong.
    """
    from eval.scorers.clip_scorer import PRESETS, summarise
    from eval.scorers.layouts import read_captioned

    pictures = read_captioned(_folder(images))
    place = Place(path=clip or PRESETS[preset].model, option="clip", **held)
    scorer = build_clip(place, preset)
    scores, folder = _score(scorer, pictures, images, out, batch)
    _finish(
        folder,
        protocol=scorer.protocol,
        images=images,
        contract=scorer.contract,
        figures=summarise(pictures, scores),
        by_image=_by_image(pictures, scores),
    )


def fid(
    *, images: str, reference: str, inception: str, out: str | None, preset: str, batch: int, **held: str
) -> None:
    """Compares two folders of pictures; `held` are device and dtype.

    Raises:
        RowcastError: if the weights or a picture is missing or wrong.
    """
    from eval.scorers.backends.inception_weights import load_inception
    from eval.scorers.fid import Features, distances
    from eval.scorers.layouts import read_plain

    judged, real = read_plain(_folder(images)), read_plain(_folder(reference))
    scorer = Features(*load_inception(Place(path=inception, option="inception", **held)), preset)
    scores, place = _score(scorer, [*real, *judged], images, out, batch)
    _finish(
        place,
        protocol=f"fid/{scorer.suffix}",
        images=images,
        contract={**scorer.contract, "reference": reference},
        figures=distances(scores[: len(real)], scores[len(real) :]),
        by_image={},
    )


def _recorded(path: str, asked: Mapping[str, Any], out: str | None, compat: str) -> None:
    from eval.scorers.dpg_scorer import figures
    from eval.scorers.recorded import read_answers

    if out is None:
        raise RowcastError("expected out=<folder> beside answers=, found none: add out=outputs/mplug")
    found = figures(asked, read_answers(_folder(path), asked), _compat(compat))
    _finish(
        _folder(out),
        protocol="dpg/mplug",
        images=path,
        contract={"answers": path, "compat": compat},
        figures=found,
        by_image={},
    )


def _compat(name: str) -> Any:
    """Checked by the options' rules."""
    return name


def _score(
    scorer: Scorer, pictures: Sequence[Picture], images: str, out: str | None, batch: int
) -> tuple[list[ImageScore], Path]:
    """The scores of the pictures, and the folder that they are kept in."""
    folder = _folder(out) if out else _folder(images.rstrip("/") + "-scores")
    try:
        lock = only_writer(folder, "out")
    except OSError as error:
        raise RowcastError(
            f"expected to write {folder}, found: {error.strerror}: free space or set out=..."
        ) from None
    with lock:
        return score_pictures(scorer, pictures, folder, batch), folder


def _by_image(pictures: Sequence[Picture], scores: Sequence[ImageScore]) -> dict[str, float]:
    return {
        picture.key: next(iter(score.scores.values()))
        for picture, score in zip(pictures, scores, strict=True)
    }


def _finish(
    folder: Path,
    *,
    protocol: str,
    images: str,
    contract: Mapping[str, Any],
    figures: Figures,
    by_image: Mapping[str, float],
) -> None:
    """Writes the result and prints it."""
    values, notes = figures
    scores = Scores(
        protocol=protocol,
        command=shlex.join(["python", "-m", "eval.scorers", protocol.partition("/")[0], *sys.argv[1:]]),
        folder=images,
        contract=contract,
        values=values,
        by_image=by_image,
        notes=notes,
    )
    path = write_scores(scores, folder)
    print(f"{scores.text()}\nscores: {path}")


def _folder(path: str) -> Path:
    return Path(path).expanduser()
