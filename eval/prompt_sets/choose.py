"""A suite's prompts: which sets, how many prompts of each, how many images a prompt."""

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from eval.prompt_sets.fetch import find
from eval.prompt_sets.manifest import SETS
from eval.prompt_sets.prompt import Prompt


@dataclass(frozen=True, kw_only=True)
class Share:
    """What a suite takes of one set."""

    prompts: int | None
    """Taken alike from every category; none: all."""
    samples: int
    """Images a prompt."""
    path: str | None
    """The user's own copy of the file."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What a suite paints."""

    prompts: list[tuple[Sequence[Prompt], int]]
    """Prompts of each set, and images of each of them."""
    files: dict[str, str]
    """sha256 of each set's file."""


def choose(shares: Mapping[str, Share], folder: Path, *, fetch: bool, seed: int) -> Chosen:
    """Reads the sets of a suite.

    Args:
        shares: by the set's name.
        folder: where fetched files are kept.
        fetch: whether the network may be asked.
        seed: of the choice of prompts.

    Raises:
        RowcastError: if a file is missing or is not what was published.
    """
    prompts, files = [], {}
    for name, share in shares.items():
        file = find(SETS[name], share.path, folder, fetch=fetch)
        every = SETS[name].read(file, name)
        prompts.append((stratified(every, share.prompts, seed), share.samples))
        if file.is_file():
            files[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return Chosen(prompts=prompts, files=files)


def stratified(prompts: Sequence[Prompt], count: int | None, seed: int) -> list[Prompt]:
    """`count` prompts, alike from every category as far as those reach, in the order of the file."""
    if count is None or count >= len(prompts):
        return list(prompts)
    groups: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.category, []).append(prompt)
    for name, group in groups.items():
        random.Random(f"{seed} {name}").shuffle(group)
    rounds = chain.from_iterable(zip_longest(*groups.values()))
    taken = {prompt.id for prompt in [prompt for prompt in rounds if prompt is not None][:count]}
    return [prompt for prompt in prompts if prompt.id in taken]
