"""The composed scenes: many, different, mixed, in plain English, and the same for ever."""

import hashlib
import itertools
import re
import time
from collections import Counter

import pytest

from backbones.prompts import scenes

pytestmark = pytest.mark.unit

PINNED = "f32751cb1cfe596741ed9a3e4ad44d327072cecbbf74ea2a6ae0b3793fab1985"
"""Rollouts are keyed by their prompts: a change here makes every recorded set another one."""


@pytest.fixture(scope="module")
def prompts() -> list[str]:
    return scenes()


def test_never_change(prompts):
    assert hashlib.sha256("\n".join(prompts).encode()).hexdigest() == PINNED


def test_are_many_and_all_different(prompts):
    assert len(prompts) == len({prompt.lower() for prompt in prompts}) >= 60_000


def test_are_made_at_once():
    start = time.process_time()
    scenes()
    assert time.process_time() - start < 1  # 0.2 s on one core of a laptop


def test_lengths_vary_from_4_to_40_words(prompts):
    lengths = Counter(len(prompt.split()) for prompt in prompts)
    assert min(lengths) == 4
    assert 35 <= max(lengths) <= 40
    assert max(lengths.values()) < 0.1 * len(prompts)


def test_are_plain_sentences(prompts):
    for prompt in prompts:
        assert re.fullmatch(r"[A-Z][a-z' ,-]*[a-z]", prompt), prompt
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]|  | ,|,,|\b(\w+) \1\b", prompt), prompt


def test_the_first_ones_are_diverse_already(prompts):
    """As many different words as a shuffled list would have, and no neighbours that look alike."""
    first = [set(re.findall(r"[a-z]{4,}", prompt.lower())) for prompt in prompts[:200]]
    spread = prompts[:: len(prompts) // 200][:200]
    assert len(set().union(*first)) > 0.9 * len(set(re.findall(r"[a-z]{4,}", " ".join(spread).lower())))
    for one, other in itertools.pairwise(first):
        assert len(one & other) <= 2
