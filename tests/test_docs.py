"""What the pages under docs show works: commands are accepted, links lead somewhere, the example runs."""

import importlib.util
import re
import shlex
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from hydra import compose, initialize_config_dir

from backbones import registry
from backbones.check_job import check_copy
from backbones.registry import load_backbone
from backbones.report import Report
from conf.check import FOLDER, choices, typed
from conf.schema import BackboneJob, CompareJob, DataJob, DecodingJob, DoctorJob, EvalJob, ReportJob, TrainJob
from conf.words import prepare
from decoding.warp import Warp
from tests.backbones.checkpoints.families import SUBJECTS
from tests.backbones.conformance import CHECKS, Case
from tests.backbones.test_check import DEFAULTS
from train.words import named

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[1]
PAGES = {page.name: page.read_text() for page in (ROOT / "docs").glob("*.md")}
JOBS = {
    "train": TrainJob,
    "data": DataJob,
    "decoding": DecodingJob,
    "eval": EvalJob,
    "backbones": BackboneJob,
    "report": ReportJob,
    "compare": CompareJob,
    "doctor": DoctorJob,
}
BESIDE = {"backbones check": "backbones"} | {f"eval {name}": name for name in ("report", "compare", "doctor")}
"""Commands of two words, and their options."""
EXAMPLE = "bricks"
COMMANDS = sorted(
    {
        match[1].strip()
        for text in PAGES.values()
        for match in re.finditer(
            r"python -m ((?:train|data|decoding|eval|backbones check)\b(?!\.)[^`#\n|&]*)", text
        )
    }
)
LINKS = [(page, link) for page, text in PAGES.items() for link in re.findall(r"\]\(([^)#]+)\)", text)]


def test_there_is_something_to_check():
    assert set(PAGES) >= {"add-a-backbone.md", "backbones.md"}
    assert len(COMMANDS) >= 8
    assert len(LINKS) >= 10


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_accepted(command):
    program, *words = shlex.split(command.replace(f"model={EXAMPLE}", "model=emu3"))
    if words and f"{program} {words[0]}" in BESIDE:
        program, *words = BESIDE[f"{program} {words[0]}"], *words[1:]
    words = named(words) if program == "train" else words
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        typed(compose(program, prepare(words, program, JOBS[program])), JOBS[program])


@pytest.mark.parametrize(("page", "link"), LINKS, ids=[f"{page}-{link}" for page, link in LINKS])
def test_every_link_leads_somewhere(page, link):
    assert (ROOT / "docs" / re.sub(r"\s+", " ", link)).exists()


def test_every_test_that_is_named_exists():
    for text in PAGES.values():
        for path in re.findall(r"python -m pytest ([\w/.]+)", text):
            assert (ROOT / path).exists()


@pytest.mark.parametrize("name", choices("model"))
def test_every_model_is_described_as_it_is(name):
    (row,) = (line for line in PAGES["backbones.md"].splitlines() if line.startswith(f"| `{name}` |"))
    backbone = load_backbone(name, weights="random", device="meta")
    grid, sampling = backbone.grid, backbone.sampling
    codes = f"{backbone.codes:,}" if backbone.codes >= 10_000 else str(backbone.codes)
    assert f"{grid.rows}x{grid.cols} of {codes}" in row
    assert ("row ends" in row) == backbone._slots.row_ends
    assert f"guidance {sampling.guidance:g}" in row
    assert (f"top-k {sampling.top_k}" in row) == (sampling.top_k is not None)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory):
    """The family of add-a-backbone.md, imported and registered as the page says; and its options."""
    folder, patch = tmp_path_factory.mktemp("example"), pytest.MonkeyPatch()
    blocks = re.findall(r"```python\n# (\S+)\.py\n(.*?)```", PAGES["add-a-backbone.md"], re.DOTALL)
    for place, code in blocks:
        patch.setitem(sys.modules, place.replace("/", "."), module(place.replace("/", "."), folder, code))
    patch.setitem(registry.FAMILIES, EXAMPLE, f"backbones.{EXAMPLE}")
    writer = sys.modules[f"tests.backbones.checkpoints.{EXAMPLE}"].write_bricks
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    yield writer(checkpoint)
    patch.undo()


def module(name: str, folder: Path, code: str) -> ModuleType:
    file = folder / f"{name}.py"
    file.write_text(code)
    spec = importlib.util.spec_from_file_location(name, file)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_example_conforms(example, check):
    load = partial(load_backbone, EXAMPLE, device="cpu", **example)
    subject = SUBJECTS["emu3"]
    check(Case(load=load, backbone=load(), prompts=subject.prompts, others=subject.others))


def test_the_example_passes_the_check_command(example):
    report = Report()
    check_copy(report, DEFAULTS | {"name": EXAMPLE} | example, prompt=None, seed=0, warp=Warp, paint=None)
    assert {proof.name for proof in report.proofs if proof.ok is False} <= {"coherent"}


def test_the_example_has_random_weights_of_its_shape(example):
    backbone = load_backbone(EXAMPLE, weights="random", device="meta")
    assert (backbone.grid.rows, backbone.grid.cols, backbone.codes) == (4, 6, 16)
