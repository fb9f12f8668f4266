"""ZipAR: its schedule, what each token saw, autoregression as a limit, and the adaptive start of a row."""

from dataclasses import replace

import pytest
import torch

from backbones.contract import Grid
from backbones.errors import RowcastError
from decoding.accounting import expected_forwards, forward_bounds
from decoding.engine import generate
from decoding.methods import build_method
from decoding.noise import Noise
from decoding.warp import Warp
from tests.backbones.coordinates import CoordinateBackbone
from tests.backbones.tiny import tiny_backbone

pytestmark = pytest.mark.integration

PROMPTS = ["red shoe", "a very green coat on white"]
GRIDS = [(3, 5, False), (4, 3, True), (1, 4, False), (4, 1, True)]


def run(backbone, options, name="zipar", prompts=PROMPTS, seed=0, **sampling):
    method = build_method(name, options, None)
    noise = Noise(seed, prompts, [0] * len(prompts))
    return generate(backbone, prompts, method, noise, replace(backbone.sampling, **sampling))


class Recorder(CoordinateBackbone):
    """Notes what each entry was and saw, as (place, code)."""

    def begin(self, prompt):
        self.entries, self.saw = [], {}
        return super().begin(prompt)

    def forward_at(self, tokens, places, sees):
        new = list(zip(places, tokens[0].tolist(), strict=True))
        self.entries += new
        for entry, flags in zip(new, sees.tolist(), strict=True):
            self.saw[entry] = sorted(seen for seen, flag in zip(self.entries, flags, strict=True) if flag)
        return super().forward_at(tokens, places, sees)

    def keep_entries(self, entries):
        self.entries = [self.entries[entry] for entry in entries]
        super().keep_entries(entries)


class Reference:
    """Greedy ZipAR written out: one entry at a time, in the order of places within a forward."""

    def __init__(self, backbone, window, adaptive):
        self.backbone, self.cols = backbone, backbone.grid.cols
        self.rows = [[self.code(backbone.begin(backbone.encode(PROMPTS[1:])))]]
        self.fed, self.cache, self.trial, self.forwards = [0] * backbone.grid.rows, [], None, 1
        while sum(map(len, self.rows)) < backbone.grid.size:
            self.step(min(window, self.cols), adaptive)
            self.forwards += 1

    def code(self, step):
        return int(Warp(replace(self.backbone.sampling, temperature=0.0))(step.logits, 2).argmax())

    def feed(self, place, code):
        if place in self.cache:
            kept = [entry for entry, other in enumerate(self.cache) if other != place]
            self.backbone.keep_entries(kept)
            self.cache = [self.cache[entry] for entry in kept]
        self.cache.append(place)
        sees = torch.tensor([[other < place for other in self.cache]])
        return self.code(self.backbone.forward_at(torch.tensor([[code]]), [place], sees))

    def step(self, window, adaptive):
        begun, opened, trial_next = len(self.rows), None, None
        above = list(self.rows[-1])
        opens = begun < self.backbone.grid.rows and len(above) >= window
        for i, row in enumerate(self.rows):
            if self.fed[i] < len(row):
                self.fed[i] = len(row)
                following = self.feed(i * self.cols + len(row) - 1, row[-1])
                if len(row) < self.cols:
                    row.append(following)
                else:
                    opened = following if i == begun - 1 else None
        if opens and len(above) < self.cols:
            opened = self.feed(begun * self.cols - 1, above[-1])
        if self.trial is not None:
            trial_next = self.feed(begun * self.cols, self.trial)
        if not opens:
            return
        if self.trial == opened:
            self.rows.append([opened, trial_next])
            self.fed[begun], self.trial = 1, None
        elif not adaptive or len(above) == self.cols:
            self.rows.append([opened])
            self.trial = None
        else:
            self.trial = opened
            if begun * self.cols in self.cache:
                self.cache.pop()
                self.backbone.keep_entries(range(len(self.cache)))


@pytest.mark.parametrize(("rows", "cols", "row_end"), GRIDS)
@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("window", [1, 2])
def test_equals_its_written_out_form(rows, cols, row_end, window, adaptive):
    backbone = tiny_backbone(rows, cols, row_end=row_end, codes=40)
    options = {"window": window, "adaptive": adaptive}
    painted = run(backbone, options, prompts=PROMPTS[1:], temperature=0.0)
    reference = Reference(backbone, window, adaptive)
    assert painted.tokens.tolist() == [[code for row in reference.rows for code in row]]
    assert painted.trace.forwards == reference.forwards


@pytest.mark.parametrize(("rows", "cols", "row_end"), GRIDS)
@pytest.mark.parametrize("window", [1, 2, 100])
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
    for guidance, window in ((1.0, cols), (2.0, cols + 3)):
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
    recorder = Recorder(3, 4)
    run(recorder, {"window": 2}, prompts=PROMPTS[:1], temperature=0.0)
    saw = recorder.saw
    assert saw[3, 1] == [(0, 0), (1, 1)], "the stand-in"
    assert saw[4, 4] == [(0, 0), (1, 1), (2, 2), (3, 1)]
    assert saw[5, 5] == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)], "the true last token arrives with it"
    assert saw[7, 5] == [(place, place) for place in range(6)]
    assert saw[8, 8] == [*((place, place) for place in range(7)), (7, 5)]
    assert sorted(recorder.entries) == [(place, place) for place in range(11)], "no stand-in stays"


def test_an_image_does_not_depend_on_its_batch():
    backbone = tiny_backbone(4, 6, row_end=True)
    together = run(backbone, {"window": 2}).tokens
    for index, prompt in enumerate(PROMPTS):
        assert torch.equal(run(backbone, {"window": 2}, prompts=[prompt]).tokens, together[index : index + 1])


def test_the_adaptive_form_takes_one_image_at_a_time():
    with pytest.raises(RowcastError, match="one image at a time for decoder zipar"):
        run(tiny_backbone(), {"window": 2, "adaptive": True})


def test_a_row_whose_start_holds_begins_as_early_as_in_the_plain_form():
    backbone = CoordinateBackbone(4, 6)
    options = {"window": 3, "adaptive": True}
    trace = run(backbone, options, prompts=PROMPTS[:1], temperature=0.0).trace
    assert trace.forwards == expected_forwards(backbone.grid, "zipar", {"window": 3})
    assert trace.acceptance() == {"opening": (3, 3)}


def test_a_row_whose_start_does_not_hold_waits():
    backbone, options = tiny_backbone(6, 8), {"window": 2, "adaptive": True}
    least, most = forward_bounds(backbone.grid, "zipar", options)
    traces = [run(backbone, options, prompts=PROMPTS[:1], seed=seed).trace for seed in range(4)]
    for trace in traces:
        accepted, tried = trace.acceptance()["opening"]
        assert (trace.forwards > least) == (accepted < tried)
        assert trace.forwards <= most
    assert max(trace.forwards for trace in traces) > least
