"""The joint law of images by EAGLE and by strict 1-D prediction, each beside variants that must be caught."""

import pytest

from decoding import advance, advance_tree
from decoding.methods.eagle import Eagle
from decoding.methods.mtp import MTPStrict
from decoding.options import parse_options
from decoding.rules.rule import Strict
from tests.backbones.tiny import tiny_backbone
from tests.decoding.broken import unshifted
from tests.decoding.cases import LEAST, Case
from tests.decoding.drafters import random_drafter, random_mtp
from tests.decoding.tables import TableBackbone

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("without_shape_checks")]

SHAPES = [
    {"depth": 3, "children": 2, "nodes": 4},
    {"depth": 2, "children": 3, "nodes": 5, "tree": "static"},
]


@pytest.fixture(scope="module")
def table():
    """Two by two, laws that depend on the whole prefix."""
    return Case(TableBackbone(2, 2, 3), temperature=1.5)


@pytest.fixture(scope="module")
def square():
    """A trunk with guidance and row ends."""
    return Case(tiny_backbone(2, 2, 3, row_end=True, seed=3), temperature=6.0)


def eagle(case, kind=Eagle, **options):
    return kind(parse_options("eagle", options), random_drafter(case.backbone.width))


def strict(case, kind=MTPStrict, **options):
    return kind(parse_options("mtp_strict", options), random_mtp(case.backbone.width))


@pytest.mark.parametrize("options", SHAPES, ids=str)
def test_eagle_is_exact(table, options):
    assert table.p_value(eagle(table, **options), 1_000) > LEAST


def test_eagle_on_a_trunk_is_exact(square):
    assert square.p_value(eagle(square, **SHAPES[0]), 600) > LEAST


def test_strict_prediction_is_exact(table):
    assert table.p_value(strict(table, block=2)) > LEAST


class KeepsRejected(Strict):
    """A rejected draft may come again: its mass is left in the law of the token after it."""

    def leftover(self, drafts):
        return drafts.p


class Forgetful(Eagle):
    def __init__(self, options, drafter):
        super().__init__(options, drafter)
        self.rule = KeepsRejected()


def test_control_rejected_drafts_left_in_the_law(table):
    assert table.p_value(eagle(table, Forgetful, **SHAPES[0]), 1_000) < LEAST


def test_control_trees_without_the_shift(table, monkeypatch):
    """Each draft is judged by the law of the token after it."""

    def shifted(tree, tokens, p, u, **options):
        return judge(tree, tokens, p.roll(-1, 1), u, **options)

    judge = advance_tree.judge
    monkeypatch.setattr(advance_tree, "judge", shifted)
    assert table.p_value(eagle(table, **SHAPES[0]), 1_000) < LEAST


class Replayed(Eagle):
    """One number decides on all drafts of a step, so those after a rejection know of it."""

    def advance(self, session, clock):
        number = session.uniform(1)
        draw = session.uniform
        session.uniform = lambda count: number.expand(-1, count)
        super().advance(session, clock)
        session.uniform = draw


def test_control_one_number_for_all_drafts(table):
    assert table.p_value(eagle(table, Replayed, **SHAPES[0]), 1_000) < LEAST


@pytest.mark.parametrize("rule", [{"name": "lantern", "bound": 0.3}, {"name": "lantern_pp", "ratio": 4.0}])
def test_control_relaxed_rules_are_lossy(table, rule):
    assert table.p_value(eagle(table, **SHAPES[0], rule=rule), 1_000) < LEAST


class Stale(MTPStrict):
    """Drafts beyond the first rejection stay, as if drawn from the law before it."""

    def propose(self, session):
        if session.end > session.committed:
            session.q = self.before[:, -session.q.shape[1] :]
            return True
        return super().propose(session)

    def accept(self, drafts, u):
        self.before = drafts.q
        return super().accept(drafts, u)


def test_control_tested_drafts_with_their_old_law(table):
    assert table.p_value(strict(table, Stale, block=3)) < LEAST


def test_control_strict_prediction_without_the_shift(table, monkeypatch):
    monkeypatch.setattr(advance, "_laws", unshifted)
    assert table.p_value(strict(table, block=2), 1_000) < LEAST


@pytest.mark.slow
def test_exact_at_many_images(table):
    assert table.p_value(eagle(table, **SHAPES[0]), 10_000) > LEAST
    assert table.p_value(eagle(table, **SHAPES[1]), 10_000) > LEAST
    assert table.p_value(strict(table, block=2), 10_000) > LEAST
