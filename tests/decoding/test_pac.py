"""SJD-PAC: greedy equality, its joint law beside broken variants, the tree's shape and what it catches."""

from dataclasses import replace

import pytest
import torch

from decoding import advance_tree
from decoding.accounting import forward_bounds
from decoding.engine import generate
from decoding.methods import build_method
from decoding.methods.pac import SJDPAC, bush
from decoding.noise import Noise
from decoding.options.spatial import PACOptions
from decoding.rules import tree as tree_module
from tests.backbones.tiny import tiny_backbone
from tests.decoding.cases import LEAST, Case
from tests.decoding.tables import TableBackbone

pytestmark = pytest.mark.integration

PROMPT = "a very green coat on white"


def run(backbone, method, seed=0, **sampling):
    sampling = replace(backbone.sampling, **sampling)
    return generate(backbone, [PROMPT], method, Noise(seed, [PROMPT], [0]), sampling)


def pac(kind=SJDPAC, **options):
    return kind(PACOptions(**options))


@pytest.mark.parametrize(
    ("rows", "cols", "row_end"), [(3, 5, False), (4, 3, True), (1, 7, False), (6, 1, True)]
)
def test_greedy_equals_autoregression(rows, cols, row_end):
    backbone = tiny_backbone(rows, cols, row_end=row_end)
    for guidance in (1.0, 2.0):
        law = {"temperature": 0.0, "guidance": guidance}
        baseline = run(backbone, build_method("ar", {}, None), **law)
        for window, depth, width in ((1, 3, 4), (2, 1, 2), (cols + 2, 3, 4), (rows * cols + 4, 64, 3)):
            options = {"window": window, "depth": depth, "width": width}
            painted = run(backbone, build_method("sjd_pac", options, None), **law)
            assert torch.equal(painted.tokens, baseline.tokens)
            least, most = forward_bounds(backbone.grid, "sjd_pac", options)
            assert least <= painted.trace.forwards <= most


class Witness(SJDPAC):
    """Keeps the session for a look at it afterwards."""

    def propose(self, session):
        self.session = session
        return super().propose(session)


@pytest.mark.parametrize("row_end", [False, True])
def test_states_after_all_trees_are_the_teacher_forced_ones(row_end):
    backbone = tiny_backbone(5, 4, row_end=row_end)
    method = pac(Witness, window=9, depth=3, width=4)
    painted = run(backbone, method)
    truth = backbone.states(backbone.encode([PROMPT]), painted.tokens)
    reached = method.session.cached + 1
    assert reached >= backbone.grid.size
    assert (method.session.states[:, : reached - 1] - truth[:, : reached - 1]).abs().max() < 1e-5
    caught, examined = painted.trace.acceptance()["sibling"]
    assert 0 < caught < examined, "a branch was kept, and one was dropped"
    assert backbone.length == method.session.cached


def test_the_tree_is_a_spine_with_leaves_at_its_front():
    assert bush(5, 2, 3).parents == (-1, 0, 1, 2, 3, 0, 0, 1, 1)
    assert bush(2, 3, 2).parents == (-1, 0, 0)
    assert bush(1, 3, 4).parents == (-1,)
    assert bush(4, 0, 4) == bush(4, 3, 1)


def test_a_step_feeds_the_window_and_the_leaves():
    backbone = tiny_backbone(6, 4)
    trace = run(backbone, pac(window=6, depth=2, width=3)).trace
    steps = trace.forwards - 1
    assert trace.fed <= steps * (6 + 4)
    assert trace.fed > (steps - 6) * (6 + 4), "all but the last few steps feed whole trees"
    assert trace.head_calls == 0


@pytest.fixture(scope="module")
def table(without_shape_checks):
    return Case(TableBackbone(2, 2, 3), temperature=1.5)


@pytest.mark.parametrize("options", [(4, 3, 2), (3, 1, 3)], ids=str)
def test_exact(table, options):
    window, depth, width = options
    assert table.p_value(pac(window=window, depth=depth, width=width)) > LEAST


@pytest.mark.slow
def test_exact_at_many_images(table):
    assert table.p_value(pac(window=4, depth=2, width=3), 10_000) > LEAST


def test_control_judged_as_if_drawn_with_replacement(table, monkeypatch):
    monkeypatch.setattr(tree_module, "without", lambda law, tokens: law)
    assert table.p_value(pac(window=4, depth=3, width=3), 500) < LEAST


class OldLaws(SJDPAC):
    """Spine drafts behind the break count as drawn from the law before the forward."""

    def advance(self, session, clock):
        before, start = session.q, session.committed
        super().advance(session, clock)
        session.q = before[:, session.committed - start :]


class Hasty(SJDPAC):
    """Takes one spine draft behind the break for final."""

    def advance(self, session, clock):
        super().advance(session, clock)
        if session.committed < session.end:
            session.finalise(session.committed + 1)
            step = session.backbone.forward(session.tokens[:, session.cached : session.cached + 1])
            session.cached += 1
            session.states[:, session.cached : session.cached + 1] = step.hidden


@pytest.mark.parametrize("kind", [OldLaws, Hasty])
def test_control_broken_bookkeeping(table, kind):
    assert table.p_value(pac(kind, window=4, depth=1, width=2), 500) < LEAST


def test_control_siblings_judged_by_the_law_of_another_node(table, monkeypatch):
    judge = tree_module.judge
    monkeypatch.setattr(
        advance_tree,
        "judge",
        lambda tree, tokens, p, *rest, **named: judge(tree, tokens, p.roll(1, 1), *rest, **named),
    )
    assert table.p_value(pac(window=4, depth=3, width=2), 500) < LEAST
