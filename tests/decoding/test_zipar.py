"""ZipAR: its schedule, what each token saw, autoregression as a limit, and the adaptive start of a row."""

from dataclasses import replace

import pytest
import torch

from backbones.contract import Grid
from decoding.accounting import expected_forwards, forward_bounds
from decoding.engine import generate
from decoding.methods import build_method
from decoding.noise import Noise
from tests.backbones.coordinates import CoordinateBackbone
from tests.backbones.tiny import tiny_backbone

pytestmark = pytest.mark.unit

PROMPTS = ["red shoe", "a very green coat on white"]
GRIDS = [(3, 5, False), (4, 3, True), (1, 7, False), (6, 1, True), (4, 6, True)]


def run(backbone, options, name="zipar", prompts=PROMPTS, seed=0, **sampling):
    method = build_method(name, options, None)
    noise = Noise(seed, prompts, [0] * len(prompts))
    return generate(backbone, prompts, method, noise, replace(backbone.sampling, **sampling))


class Recorder:
    """A backbone that notes what each entry was and saw, and passes everything on."""

    def __init__(self, backbone):
        self.backbone, self.entries, self.fed = backbone, [], []

    def __getattr__(self, name):
        return getattr(self.backbone, name)

    def forward_at(self, tokens, places, sees):
        new = list(zip(places, tokens[0].tolist(), strict=True))
        present = [*self.entries, *new]
        for row, entry in zip(sees.tolist(), new, strict=True):
            self.fed.append((entry, sorted(seen for seen, flag in zip(present, row, strict=True) if flag)))
        self.entries = present
        return self.backbone.forward_at(tokens, places, sees)

    def keep_entries(self, entries):
        self.entries = [self.entries[entry] for entry in entries]
        self.backbone.keep_entries(entries)


@pytest.mark.parametrize(("rows", "cols", "row_end"), GRIDS)
@pytest.mark.parametrize("window", [1, 2, 3, 100])
def test_counts_are_the_closed_form(rows, cols, row_end, window):
    backbone = tiny_backbone(rows, cols, row_end=row_end)
    trace = run(backbone, {"window": window}).trace
    expected = cols + (rows - 1) * min(window, cols)
    assert trace.forwards == expected_forwards(backbone.grid, "zipar", {"window": window}) == expected
    stand_ins = (rows - 1) * (window < cols)
    assert trace.fed == rows * cols - 1 + stand_ins


def test_counts_of_the_published_grids():
    """Lumina's 801 are these 800 and one row end, which here rides along."""
    assert expected_forwards(Grid(rows=48, cols=48), "zipar", {"window": 16}) == 800
    assert expected_forwards(Grid(rows=24, cols=24), "zipar", {"window": 24}) == 576
    grid = Grid(rows=16, cols=16)
    assert forward_bounds(grid, "zipar", {"window": 4}) == (76, 76)
    assert forward_bounds(grid, "zipar", {"window": 4, "adaptive": True}) == (76, 256)


@pytest.mark.parametrize(("rows", "cols", "row_end"), GRIDS)
@pytest.mark.parametrize("adaptive", [False, True])
def test_a_window_of_a_whole_row_is_autoregression(rows, cols, row_end, adaptive):
    backbone = tiny_backbone(rows, cols, row_end=row_end)
    prompts = PROMPTS[1:] if adaptive else PROMPTS
    for guidance in (1.0, 2.0):
        for window in (cols, cols + 3):
            options = {"window": window, "adaptive": adaptive}
            painted = run(backbone, options, prompts=prompts, guidance=guidance)
            baseline = run(backbone, {}, "ar", prompts=prompts, guidance=guidance)
            assert torch.equal(painted.tokens, baseline.tokens)
            assert painted.trace.forwards == baseline.trace.forwards


def test_a_smaller_window_is_not():
    backbone = tiny_backbone(4, 6)
    baseline = run(backbone, {}, "ar", temperature=0.0).tokens
    assert not torch.equal(run(backbone, {"window": 3}, temperature=0.0).tokens, baseline)


@pytest.mark.parametrize("options", [{"window": 2}, {"window": 3}, {"window": 2, "adaptive": True}], ids=str)
@pytest.mark.parametrize("row_end", [False, True])
def test_every_token_is_drawn_at_its_cell(options, row_end):
    """The coordinate backbone emits a place's own code, and refuses a mask that reaches ahead or twice."""
    backbone = CoordinateBackbone(4, 5, row_end)
    painted = run(backbone, options, prompts=PROMPTS[:1], temperature=0.0)
    assert painted.tokens.tolist() == [list(range(20))]


def test_what_each_token_saw():
    """Three rows of four, window 2: the stand-in is the row's second token at the row's end."""
    recorder = Recorder(CoordinateBackbone(3, 4))
    run(recorder, {"window": 2}, prompts=PROMPTS[:1], temperature=0.0)
    seen = {entry: [place for place, _ in saw] for entry, saw in recorder.fed}
    tokens = {entry: [token for _, token in saw] for entry, saw in recorder.fed}
    assert seen[3, 1] == [0, 1], "the stand-in"
    assert seen[4, 4] == [0, 1, 2, 3]
    assert tokens[4, 4] == [0, 1, 2, 1]
    assert tokens[5, 5] == [0, 1, 2, 3, 4], "the true last token is fed in the same forward"
    assert seen[7, 5] == [0, 1, 2, 3, 4, 5]
    assert tokens[8, 8] == [0, 1, 2, 3, 4, 5, 6, 5]
    assert [place for place, token in recorder.entries if place != token] == []
    assert len(recorder.entries) == 11


@pytest.mark.parametrize("row_end", [False, True])
def test_states_are_those_of_what_was_seen(row_end):
    """A last row whose entries saw all of a finished image gives the states of teacher forcing."""
    backbone = tiny_backbone(3, 5, row_end=row_end)
    painted = run(backbone, {"window": 2}, temperature=0.0)
    truth = backbone.states(backbone.encode(PROMPTS), painted.tokens)
    own = backbone.head(truth).argmax(-1)[:2]
    assert backbone.length == 14
    assert own.shape == painted.tokens.shape
