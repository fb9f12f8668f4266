"""What a benchmark paints: prompts, and how many images of each, in the order in which they are taken."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from eval.prompt_sets.prompt import Prompt
from eval.samples import Sample


@dataclass(frozen=True, kw_only=True)
class Item:
    """One image to be painted by every decoder."""

    prompt: Prompt
    sample: int
    """Which image of this text; with the text and the seed it decides the image's random numbers."""


@dataclass(frozen=True, kw_only=True)
class Shard:
    """The part of a benchmark's items that one process paints."""

    part: int = 0
    of: int = 1

    def __contains__(self, index: int) -> bool:
        return index % self.of == self.part


def plain_prompts(texts: Sequence[str], categories: Sequence[str] | None = None) -> list[Prompt]:
    """Prompts without a set, each text once; their number in the list is their name."""
    chosen = dict(zip(texts, categories or [""] * len(texts), strict=True))
    return [
        Prompt(set="prompts", id=f"{number:05d}", text=text, category=category)
        for number, (text, category) in enumerate(chosen.items())
    ]


def work_items(prompts: Sequence[Prompt], count: int) -> list[Item]:
    """The first `count` images: one of every prompt, then another of every prompt."""
    return _numbered(list(islice(cycle(prompts), count)))


def set_items(chosen: Sequence[tuple[Sequence[Prompt], int]], seed: int) -> list[Item]:
    """Every image of prompt sets.

    Args:
        chosen: prompts and the number of images of each.
        seed: of the order, which mixes the sets so that the first images speak for all.
    """
    counted = [(prompt, samples) for prompts, samples in chosen for prompt in prompts]
    random.Random(seed).shuffle(counted)
    most = max(samples for _, samples in counted)
    return _numbered([prompt for turn in range(most) for prompt, samples in counted if turn < samples])


def told(prompt: Prompt) -> dict[str, Any]:
    """What its set says of a prompt, in the words of the set's own files, for scorers."""
    return {
        "set": prompt.set,
        "item_id": prompt.id,
        "tag": prompt.category,
        "prompt": prompt.text,
        **prompt.details,
    }


def metadata_of(items: Sequence[Item]) -> Callable[[Sample], dict[str, Any]]:
    """The same of logged images; two sets that share a text have images of their own."""
    known = {(item.prompt.text, item.sample): told(item.prompt) for item in items}
    return lambda sample: known[sample.prompt, sample.sample]


def _numbered(prompts: Sequence[Prompt]) -> list[Item]:
    """Texts that occur in two sets, or twice in one, get images of their own."""
    seen: Counter[str] = Counter()
    items = []
    for prompt in prompts:
        items.append(Item(prompt=prompt, sample=seen[prompt.text]))
        seen[prompt.text] += 1
    return items
