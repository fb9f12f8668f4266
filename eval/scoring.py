"""The judges that a benchmark's `scores` name: prompts and models are checked before anything is painted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backbones.contract import Backbone
from backbones.errors import RowcastError
from eval.items import Item, metadata_of
from eval.items import told as told_of
from eval.samples import Sample
from eval.scorers.backends.load import Place
from eval.scorers.build import SHAPES, build_clip, build_dpg, build_geneval
from eval.scorers.clip_scorer import PRESETS
from eval.scorers.columns import Judge, SampleColumns
from eval.scorers.dpg import Question
from eval.scorers.dpg_files import read_questions
from eval.scorers.geneval import require_metadata

GENEVAL, DPG = "geneval", "dpg"
"""Scores that need the prompts of the set of their name."""


@dataclass(frozen=True, kw_only=True)
class Models:
    """Where the models behind the scores come from: folders, or names on the hub."""

    preset: str
    clip: str | None
    detector: str
    colours: str
    vqa: str
    device: str

    def place(self, option: str) -> Place:
        """The model of an option."""
        path = getattr(self, option) or PRESETS[self.preset].model
        return Place(path=path, option=f"scoring.{option}", device=self.device)


def build_judges(
    names: Sequence[str], models: Models, items: Sequence[Item], questions: Path | None
) -> list[Judge]:
    """A judge for every score.

    Args:
        names: of scores: `clip`, `geneval`, `dpg`.
        models: loaded here.
        items: of the images that are judged.
        questions: the file of DPG-Bench, where its prompts are painted.

    Raises:
        RowcastError: if a score's prompts, its questions or a file of its models are missing.
    """
    for name in (GENEVAL, DPG):
        if name in names:
            _require_prompts(name, items)
    asked = _asked(questions) if DPG in names else {}
    if GENEVAL in names:
        _require_judgeable(items)
    build: dict[str, Callable[[], Judge]] = {
        "clip": lambda: Judge(scorer=build_clip(models.place("clip"), models.preset)),
        GENEVAL: lambda: Judge(
            scorer=build_geneval(models.place("detector"), models.place("colours")), set=GENEVAL
        ),
        DPG: lambda: Judge(scorer=build_dpg(models.place("vqa"), asked), set=DPG),
    }
    try:
        return [build[name]() for name in dict.fromkeys(names)]
    except RowcastError as error:
        raise RowcastError(f"{error}. {needed(names, models)}") from error


def needed(names: Sequence[str], models: Models) -> str:
    """Which models the scores need, and what of them: all at once, for a machine without a network."""
    options = {
        "clip": ["clip"],
        GENEVAL: [] if models.detector == SHAPES else ["detector", "colours"],
        DPG: ["vqa"],
    }
    places = [models.place(option) for name in dict.fromkeys(names) for option in options[name]]
    listed = ", ".join(f"{place.option}={place.path}" for place in places)
    return (
        f"scores=[{','.join(dict.fromkeys(names))}] need {listed}: hub ids, or folders with their config, "
        "safetensors, tokenizer and preprocessor files"
    )


def judged_columns(
    judges: Sequence[Judge], told: Callable[[Sample], Mapping[str, Any]], backbone: Backbone, folder: Path
) -> SampleColumns:
    """The judges as columns of a benchmark.

    Args:
        judges: from `build_judges`.
        told: from `telling`.
        backbone: whose images they see.
        folder: of the pictures and the judges' logs.

    Raises:
        RowcastError: if the backbone has no pixels, or the folder can't be used.
    """
    if not backbone.paints:
        raise RowcastError(
            f"expected a model that paints pixels for scores=, found {backbone.name} without the weights "
            "for that: load them, or leave scores out"
        )
    return SampleColumns(backbone, judges, folder, told)


def telling(items: Sequence[Item], questions: Path | None) -> Callable[[Sample], Mapping[str, Any]]:
    """What prompt sets say of logged images; of DPG-Bench's the questions too, which a score depends on."""
    known, asked = metadata_of(items), {} if questions is None else read_questions(questions)

    def told(sample: Sample) -> Mapping[str, Any]:
        metadata = known(sample)
        if metadata["set"] != DPG:
            return metadata
        return metadata | {"questions": [question.text for question in asked.get(metadata["item_id"], [])]}

    return told


def _require_judgeable(items: Sequence[Item]) -> None:
    """Refuses lines of GenEval's file that its rules can't judge."""
    for item in items:
        if item.prompt.set == GENEVAL:
            require_metadata(told_of(item.prompt), f"prompt {item.prompt.id} of sets.geneval")


def _asked(path: Path | None) -> dict[str, list[Question]]:
    """The questions of DPG-Bench."""
    if path is None or not path.is_file():
        raise RowcastError(
            "expected sets.dpg.path=<dpg_bench.csv> for scores=[dpg], found a folder of prompts, which has "
            "no questions: fetch that file of the ELLA repository"
        )
    return read_questions(path)


def _require_prompts(name: str, items: Sequence[Item]) -> None:
    sets = list(dict.fromkeys(item.prompt.set for item in items))
    if name not in sets:
        raise RowcastError(
            f"expected prompts of the set {name} for scores=[{name}], found {', '.join(sets) or 'none'}: "
            f"choose suite=quick or suite=paper, or set sets.{name}.prompts=100"
        )
