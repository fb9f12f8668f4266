"""Every family through the conformance suite, on tiny checkpoints in the published layouts."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from backbones.registry import known_backbones, load_backbone
from tests.backbones.checkpoints.families import SUBJECTS
from tests.backbones.conformance import CHECKS, Case

pytestmark = pytest.mark.integration

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


def test_no_family_is_left_out():
    assert set(SUBJECTS) == set(known_backbones())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_family(family, check):
    check(family)
