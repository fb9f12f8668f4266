"""GenEval on pictures: a detector finds objects, a colour judge names colours, the rules decide."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from PIL import Image

from eval.scorers.geneval import TAGS, Detection, objects_by_name, require_metadata, verdict
from eval.scorers.pictures import Picture
from eval.scorers.results import balanced_interval, prompt_interval
from eval.scorers.scorer import ImageScore
from eval.statistics import Interval


@runtime_checkable
class Detector(Protocol):
    """Finds objects of COCO's 80 classes."""

    name: str
    """What the protocol is called after."""
    record: dict[str, str | None]

    def detect(self, images: Sequence[Image.Image]) -> list[list[Detection]]:
        """The objects of every image, in any order; those below the rules' thresholds may be left out."""
        ...


@runtime_checkable
class Colours(Protocol):
    """Names the colours of objects."""

    record: dict[str, str | None]

    def colours(self, image: Image.Image, detections: Sequence[Detection], name: str) -> list[str]:
        """One of `geneval.COLOURS` for each of an image's detections of class `name`."""
        ...


class GenEval:
    """The scorer: 1 where an image shows what its prompt asks for, else 0."""

    def __init__(self, detector: Detector, colours: Colours, max_overlap: float = 1.0) -> None:
        self.detector, self.colours, self.max_overlap = detector, colours, max_overlap
        self.protocol = f"geneval/{detector.name}"

    @property
    def contract(self) -> Mapping[str, Any]:
        """Models and options."""
        return {
            "detector": self.detector.record,
            "colours": self.colours.record,
            "max_overlap": self.max_overlap,
        }

    def score(self, pictures: Sequence[Picture]) -> list[ImageScore]:
        """As `Scorer.score`; the detail says why an image is wrong and which boxes counted.

        Raises:
            RowcastError: if a picture can't be read, or the metadata of its prompt can't be judged.
        """
        for picture in pictures:
            require_metadata(picture.metadata, f"the metadata of {picture.key}")
        images = [picture.load() for picture in pictures]
        found = self.detector.detect(images)
        return [self._judge(*each) for each in zip(pictures, images, found, strict=True)]

    def _judge(self, picture: Picture, image: Image.Image, found: Sequence[Detection]) -> ImageScore:
        objects = objects_by_name(found, picture.metadata["tag"], self.max_overlap)

        def judge(name: str, detections: Sequence[Detection]) -> list[str]:
            return self.colours.colours(image, detections, name)

        result = verdict(objects, picture.metadata, judge)
        boxes = {
            name: [[round(edge, 2) for edge in each.box] + [round(each.score, 4)] for each in kept]
            for name, kept in objects.items()
        }
        return ImageScore(
            scores={self.protocol: float(result.correct)}, detail={"reasons": result.reasons, "boxes": boxes}
        )


def summarise(pictures: Sequence[Picture], correct: Sequence[float]) -> tuple[dict[str, Interval], list[str]]:
    """GenEval's figures, and what a reader has to know of them.

    A tag's score is the mean over its images; overall is the unweighted mean of the tags.

    Args:
        pictures: the set.
        correct: 1 or 0 for each.
    """
    by_tag: dict[str, list[int]] = {tag: [] for tag in TAGS}
    for place, picture in enumerate(pictures):
        by_tag[picture.metadata["tag"]].append(place)
    by_tag = {tag: places for tag, places in by_tag.items() if places}
    values = np.asarray(correct)
    groups = np.asarray([picture.group for picture in pictures])
    tags = {
        tag: prompt_interval(groups[places].tolist(), values[places].tolist())
        for tag, places in by_tag.items()
    }
    strata = {}
    for tag, places in by_tag.items():
        names = dict.fromkeys(groups[places].tolist())
        strata[tag] = [float(values[groups == name].mean()) for name in names]
    overall = balanced_interval(strata)
    mean = float(np.mean([found.value for found in tags.values()]))
    prompts = list(dict.fromkeys(groups.tolist()))
    best = [float(values[groups == name].max()) for name in prompts]
    figures = {
        "overall": _valued(overall, mean),
        **tags,
        "images": prompt_interval(groups.tolist(), values.tolist()),
        "prompts with a right image": prompt_interval(prompts, best),
    }
    return figures, _notes(strata, [int((groups == name).sum()) for name in prompts])


def _valued(interval: Interval, value: float) -> Interval:
    return Interval(value=value, low=interval.low, high=interval.high, n=interval.n)


def _notes(strata: Mapping[str, Sequence[float]], counts: Sequence[int]) -> list[str]:
    notes = []
    short = [
        f"{tag} {len(strata.get(tag, ()))} of {n}" for tag, n in TAGS.items() if len(strata.get(tag, ())) != n
    ]
    if short:
        notes.append(f"not the published set of {sum(TAGS.values())} prompts: {', '.join(short)}")
    if set(counts) != {4}:
        notes.append(f"{min(counts)} to {max(counts)} images a prompt, where papers paint 4")
    return notes
