"""The rules of DPG-Bench on plain answers (ELLA, arXiv 2403.05135): no model, no picture.

The official script has two defects that move its numbers (`Compat`); both numbers can be had from the same
answers, and both are always reported.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Compat = Literal["fixed", "official"]
"""`official` repeats the published script: the question in the first row of the file is left out (so that a
prompt whose other questions depend on it is dropped), and categories count the last image of a prompt alone.
`fixed` asks every question, drops no prompt, and counts every image."""

Answers = Mapping[int, float]
"""By question: 1 for yes, 0 for no."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One yes-or-no question about a prompt's image."""

    id: int
    text: str
    category: str
    """As in `attribute - color`; its first word is the broad one."""
    parents: tuple[int, ...] = ()
    """Questions without whose yes this one counts as no."""
    first_row: bool = False
    """Whether it stands in the first row of the file."""


@dataclass(frozen=True, kw_only=True)
class PromptScore:
    """What one prompt got: its mean over images, and the raw answers that count for categories."""

    score: float
    by_category: dict[str, list[float]]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A whole set, each value 0 to 1."""

    by_prompt: dict[str, float]
    broad: dict[str, tuple[float, int]]
    """By category, the first word of the detailed one: the mean over answers, and how many."""
    detailed: dict[str, tuple[float, int]]
    dropped: list[str]
    """Prompts that could not be scored: the official rules have such, and answers that lack a question."""

    @property
    def overall(self) -> float | None:
        """The mean over prompts; none where none could be scored."""
        return sum(self.by_prompt.values()) / len(self.by_prompt) if self.by_prompt else None


def image_score(questions: Sequence[Question], answers: Answers, compat: Compat) -> float:
    """Share of questions answered yes once each no has struck out what depends on it.

    The official script strikes in one pass in the file's order, which reaches everything as long as parents
    come first; `fixed` strikes until nothing changes.

    Args:
        questions: of the prompt, in the file's order.
        answers: to every question.
        compat: whose rules.

    Raises:
        KeyError: if a parent has no answer; the official script drops the prompt then.
    """
    scores = {question.id: answers[question.id] for question in questions}
    while True:
        before = dict(scores)
        for question in questions:
            if any(scores[parent] == 0 for parent in question.parents):
                scores[question.id] = 0.0
        if compat == "official" or scores == before:
            return sum(scores.values()) / len(scores)


def prompt_score(
    questions: Sequence[Question], images: Sequence[Answers], compat: Compat
) -> PromptScore | None:
    """One prompt's score; none where an answer is missing, for which the official script drops the prompt.

    Args:
        questions: of the prompt, in the file's order.
        images: the answers about each of its images.
        compat: whose rules.
    """
    asked = [question for question in questions if compat == "fixed" or not question.first_row]
    try:
        known = [{question.id: answers[question.id] for question in asked} for answers in images]
        scores = [image_score(asked, answers, compat) for answers in known]
    except KeyError:
        return None
    if not asked:
        return None
    by_category: dict[str, list[float]] = defaultdict(list)
    for answers in known if compat == "fixed" else known[-1:]:
        for question in asked:
            by_category[question.category].append(answers[question.id])
    return PromptScore(score=sum(scores) / len(scores), by_category=dict(by_category))


def summarise(
    questions: Mapping[str, Sequence[Question]], answers: Mapping[str, Sequence[Answers]], compat: Compat
) -> Summary:
    """The set's score: mean over prompts; categories are means over answers, before anything is struck out.

    Args:
        questions: by prompt.
        answers: by prompt, one entry an image.
        compat: whose rules.
    """
    scores: dict[str, float] = {}
    dropped = []
    detailed: dict[str, list[float]] = defaultdict(list)
    broad: dict[str, list[float]] = defaultdict(list)
    for prompt, images in answers.items():
        result = prompt_score(questions[prompt], images, compat)
        if result is None:
            dropped.append(prompt)
            continue
        scores[prompt] = result.score
        for category, values in result.by_category.items():
            detailed[category] += values
            broad[category.partition("-")[0].strip()] += values
    return Summary(
        by_prompt=scores,
        broad=_means(broad),
        detailed=_means(detailed),
        dropped=dropped,
    )


def _means(categories: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, int]]:
    return {name: (sum(values) / len(values), len(values)) for name, values in sorted(categories.items())}
