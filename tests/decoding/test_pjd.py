"""Parallel Jacobi decoding: lossless one row at a time, and what its rows may do side by side."""

from dataclasses import replace

import pytest
import torch

from backbones.errors import RowcastError
from decoding.accounting import forward_bounds
from decoding.engine import generate
from decoding.methods import build_method
from decoding.methods.pjd import PJD
from decoding.methods.rows import rows_of
from decoding.noise import Noise
from decoding.options.spatial import PJDOptions
from decoding.rules.rule import Strict
from tests.backbones.coordinates import CoordinateBackbone
from tests.backbones.tiny import tiny_backbone
from tests.decoding.cases import LEAST, Case
from tests.decoding.tables import TableBackbone

pytestmark = pytest.mark.integration

PROMPT = "a very green coat on white"
GRIDS = [(3, 5, False), (4, 3, True), (1, 7, False), (6, 1, True)]


def run(backbone, method, seed=0, **sampling):
    return generate(
        backbone, [PROMPT], method, Noise(seed, [PROMPT], [0]), replace(backbone.sampling, **sampling)
    )


def pjd(kind=PJD, **options):
    return kind(PJDOptions(**options))


@pytest.mark.parametrize(("rows", "cols", "row_end"), GRIDS)
def test_greedy_row_after_row_equals_autoregression(rows, cols, row_end):
    backbone = tiny_backbone(rows, cols, row_end=row_end)
    for guidance in (1.0, 2.0):
        law = {"temperature": 0.0, "guidance": guidance}
        baseline = run(backbone, build_method("ar", {}, None), **law)
        for window in (1, 3, cols + 2):
            options = {"window": window, "context": cols}
            painted = run(backbone, build_method("pjd", options, None), **law)
            assert torch.equal(painted.tokens, baseline.tokens)
            least, most = forward_bounds(backbone.grid, "pjd", options)
            assert least <= painted.trace.forwards <= most
            assert window > 1 or painted.trace.forwards == most


@pytest.mark.parametrize(("rows", "cols", "row_end"), GRIDS)
@pytest.mark.parametrize("context", [1, 2, 4])
def test_every_token_is_drawn_at_its_cell(rows, cols, row_end, context):
    """The coordinate backbone emits a place's own code, and refuses a mask that reaches ahead or twice."""
    backbone, options = CoordinateBackbone(rows, cols, row_end), {"window": 4, "context": context}
    painted = run(backbone, build_method("pjd", options, None), temperature=0.0)
    assert painted.tokens.tolist() == [list(range(rows * cols))]
    least, most = forward_bounds(backbone.grid, "pjd", options)
    assert least <= painted.trace.forwards <= most


class Witness(PJD):
    """Notes the counts of the rows before and after each forward, and how many drafts stood in each."""

    def __init__(self, options):
        super().__init__(options)
        self.history = []

    def _judge(self, session, fronts, p, q):
        before, seen = list(rows_of(session).counts), len(session.trace.rounds)
        super()._judge(session, fronts, p, q)
        stood = {}
        for front in fronts:
            row = front.emitted.start // session.grid.cols
            flags = {}
            for round_ in session.trace.rounds[seen:]:
                flags |= dict(zip(round_.positions.tolist(), round_.accepted[0].tolist(), strict=True))
            stood[row] = [flags[place] for place in front.drafted]
        self.history.append((before, list(rows_of(session).counts), stood))


@pytest.mark.parametrize("row_end", [False, True])
@pytest.mark.parametrize("context", [1, 3])
def test_what_rows_gain(row_end, context):
    backbone = tiny_backbone(6, 8, row_end=row_end)
    method = pjd(Witness, window=4, context=context)
    painted = run(backbone, method)
    assert painted.trace.forwards == len(method.history) + 1
    for before, after, stood in method.history:
        assert sorted(after, reverse=True) == after, "a row overtook the one above"
        for row, flags in stood.items():
            leading = [*flags, False].index(False)
            top = row == min(stood)
            room = 8 - before[row] - leading
            assert after[row] - before[row] == leading + (top and room > 0)
            assert len(flags) <= min(3, (8 if top else before[row - 1]) - before[row])
            assert row == 0 or before[row] > 0 or before[row - 1] >= context
    assert any(len(stood) > 2 for _, _, stood in method.history), "rows went side by side"
    assert painted.trace.acceptance().keys() == {"random", "next"}


def test_side_by_side_takes_fewer_forwards_and_is_not_autoregression():
    backbone = tiny_backbone(6, 8)
    baseline = run(backbone, build_method("ar", {}, None), temperature=0.0)
    row_after_row = run(backbone, pjd(window=4, context=8), temperature=0.0)
    parallel = run(backbone, pjd(window=4, context=2), temperature=0.0)
    assert parallel.trace.forwards < row_after_row.trace.forwards
    assert not torch.equal(parallel.tokens, baseline.tokens)


def test_several_images_at_a_time_are_refused():
    backbone = tiny_backbone()
    with pytest.raises(RowcastError, match="one image at a time for decoder pjd, found 2: set batch=1"):
        generate(backbone, ["a", "b"], pjd(), Noise(0, ["a", "b"], [0, 0]))


@pytest.fixture(scope="module")
def table(without_shape_checks):
    return Case(TableBackbone(2, 2, 3), temperature=1.5)


@pytest.fixture(scope="module")
def line(without_shape_checks):
    """One row of four, so that drafts are refined."""
    return Case(TableBackbone(1, 4, 3), temperature=1.5)


def test_one_row_at_a_time_is_exact(table, line):
    assert table.p_value(pjd(window=3, context=2), 1_000) > LEAST
    assert line.p_value(pjd(window=3, context=4)) > LEAST


class NoResidual(Strict):
    """The rejected draft of the topmost row is drawn from the whole law."""

    def leftover(self, drafts):
        return drafts.p


class Postponing(PJD):
    """No row is the topmost one: a rejected draft is drawn anew and judged by the same law again."""

    rule = NoResidual()


def test_control_no_residual(line):
    assert line.p_value(pjd(Postponing, window=3, context=4), 2_000) < LEAST


class OldLaws(PJD):
    """Drafts count as drawn from the law before the forward."""

    def _judge(self, session, fronts, p, q):
        super()._judge(session, fronts, p, q)
        for name in [name for name in session.memory if name.startswith("laws")]:
            laws = session.memory[name]
            session.memory[name] = laws.new_ones(laws.shape) / laws.shape[-1]


def test_control_wrong_draft_laws(line):
    assert line.p_value(pjd(OldLaws, window=3, context=4), 500) < LEAST
