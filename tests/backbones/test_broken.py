"""Adapters with one mistake each fail the conformance suite: it can tell."""

from functools import partial

import pytest

from tests.backbones.broken import BROKEN, broken_backbone
from tests.backbones.conformance import CHECKS, Case

pytestmark = pytest.mark.unit

CHECK = {check.__name__: check for check in CHECKS}
MISTAKES = [(name, mistake) for name, mistakes in BROKEN.items() for mistake in mistakes]


def test_every_check_has_a_mistake_to_find():
    assert set(BROKEN) == set(CHECK)


@pytest.mark.parametrize(("name", "mistake"), MISTAKES, ids=[f"{m.__name__}-{n}" for n, m in MISTAKES])
def test_a_broken_adapter_fails(name, mistake):
    load = partial(broken_backbone, mistake)
    case = Case(
        load=load,
        backbone=load(),
        prompts=("one", "a much longer prompt than that"),
        others=("two", "b other words of same count"),
    )
    with pytest.raises((AssertionError, RuntimeError)):  # stale slots do not even fit the mask
        CHECK[name](case)
