"""DPG-Bench on pictures: a model answers every question about every tile, the rules add up."""

from collections.abc import Mapping, Sequence
from typing import Any

from eval.scorers.backends.vqa import Vqa
from eval.scorers.dpg import Compat, Question, Summary, image_score, summarise
from eval.scorers.pictures import Picture
from eval.scorers.results import prompt_interval
from eval.scorers.scorer import ImageScore
from eval.statistics import Interval

PROMPTS = 1065
"""Of the published set."""
COMPATS: tuple[Compat, ...] = ("fixed", "official")


class Dpg:
    """The scorer: share of questions answered yes, what depends on a no struck out."""

    def __init__(self, vqa: Vqa, questions: Mapping[str, Sequence[Question]]) -> None:
        self.vqa, self.questions = vqa, questions
        self.protocol = f"dpg/{vqa.name}"

    @property
    def contract(self) -> Mapping[str, Any]:
        """The model; a picture's questions are part of its metadata, and so of its fingerprint."""
        return {"vqa": self.vqa.record}

    def score(self, pictures: Sequence[Picture]) -> list[ImageScore]:
        """As `Scorer.score`; the detail keeps the probability of every yes, by question.

        Raises:
            RowcastError: if a picture can't be read.
        """
        return [self._judge(picture) for picture in pictures]

    def _judge(self, picture: Picture) -> ImageScore:
        asked = self.questions[picture.group]
        chances = self.vqa.yes(picture.load(), [question.text for question in asked])
        by_id = {question.id: chance for question, chance in zip(asked, chances, strict=True)}
        score = image_score(asked, answers(by_id), "fixed")
        return ImageScore(
            scores={self.protocol: score}, detail={"yes": {str(name): value for name, value in by_id.items()}}
        )


def answers(chances: Mapping[Any, float]) -> dict[int, float]:
    """Hard answers, by question: yes where it is more probable than no."""
    return {int(name): float(chance > 0.5) for name, chance in chances.items()}


def figures(
    questions: Mapping[str, Sequence[Question]],
    answered: Mapping[str, Sequence[Mapping[int, float]]],
    compat: Compat,
) -> tuple[dict[str, Interval], list[str]]:
    """DPG-Bench's figures, 0 to 100 as papers print them, and what a reader has to know of them.

    Args:
        questions: by prompt.
        answered: by prompt, the answers about each of its images.
        compat: whose number is the headline; the other one follows it.
    """
    chosen: dict[Compat, Summary] = {name: summarise(questions, answered, name) for name in COMPATS}
    order = sorted(COMPATS, key=lambda name: name != compat)
    values: dict[str, Interval] = {}
    for name in order:
        found = chosen[name]
        if found.overall is not None:
            values[f"overall, {name}"] = prompt_interval(
                list(found.by_prompt), [100 * value for value in found.by_prompt.values()]
            )
    for level in (chosen[compat].broad, chosen[compat].detailed):
        for category, (value, n) in level.items():
            values[category] = Interval(value=100 * value, low=None, high=None, n=n)
    notes = []
    for name in order:
        if chosen[name].dropped:
            listed = ", ".join(chosen[name].dropped[:3])
            notes.append(f"{name}: {len(chosen[name].dropped)} prompts dropped from the mean ({listed})")
    if len(answered) != PROMPTS:
        notes.append(f"{len(answered)} of the published {PROMPTS} prompts")
    counts = {len(images) for images in answered.values()}
    if counts != {4}:
        notes.append(f"{min(counts)} to {max(counts)} images a prompt, where papers paint 4")
    return values, notes
