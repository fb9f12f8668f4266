"""Every family through the conformance suite, and broken adapters that have to fail it."""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from backbones.registry import known_backbones, load_backbone
from tests.backbones.broken import BROKEN, broken_backbone
from tests.backbones.checkpoints.families import SUBJECTS
from tests.backbones.conformance import CHECKS, Case
from tests.backbones.tiny import tiny_backbone

pytestmark = pytest.mark.integration

NAMES = [check.__name__ for check in CHECKS]
WORDS = ("one", "a much longer prompt than that")
OTHERS = ("two", "b other words of same count")
ELSEWHERE = """
import json, sys
from backbones.registry import load_backbone
for name, options in json.load(sys.stdin).items():
    try:
        found = load_backbone(name, device="cpu", **options).fingerprint
    except Exception as error:
        found = repr(error)
    print(json.dumps({name: found}))
"""


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What `load_backbone` takes for the tiny checkpoint of each model."""
    return {name: subject.write(tmp_path_factory.mktemp(name)) for name, subject in SUBJECTS.items()}


@pytest.fixture(scope="module")
def elsewhere(options) -> dict[str, str]:
    """Every fingerprint as a process computes it that never saw the writing of the weights."""
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        input=json.dumps(options),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return {name: found for line in done.stdout.splitlines() for name, found in json.loads(line).items()}


@pytest.fixture(scope="module", params=SUBJECTS)
def family(request: pytest.FixtureRequest, options, elsewhere) -> Case:
    name, subject = request.param, SUBJECTS[request.param]
    load = partial(load_backbone, name, device="cpu", **options[name])
    return Case(
        load=load,
        backbone=load(),
        prompts=subject.prompts,
        others=subject.others,
        elsewhere=elsewhere[name],
    )


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "row ends"])
def trunk(request: pytest.FixtureRequest) -> Case:
    return case_of(lambda dtype="float32": tiny_backbone(row_end=request.param, dtype=getattr(torch, dtype)))


def case_of(load: Callable) -> Case:
    return Case(load=load, backbone=load(), prompts=WORDS, others=OTHERS)


def test_no_family_is_left_out():
    assert set(SUBJECTS) == set(known_backbones())


@pytest.mark.parametrize("check", CHECKS, ids=NAMES)
def test_family(family, check):
    check(family)


@pytest.mark.parametrize("check", CHECKS, ids=NAMES)
def test_shared_trunk(trunk, check):
    check(trunk)


MISTAKES = [(name, mistake) for name, mistakes in BROKEN.items() for mistake in mistakes]


@pytest.mark.parametrize(("name", "mistake"), MISTAKES, ids=[f"{n}-{m.__name__}" for n, m in MISTAKES])
def test_a_broken_adapter_fails(name, mistake):
    case = case_of(partial(broken_backbone, mistake))
    check = CHECKS[NAMES.index(name)]
    with pytest.raises((AssertionError, RuntimeError)):  # stale slots do not even fit the mask
        check(case)
