"""The joint law of whole images by chi-square against the enumerated law of a tiny backbone.

Every claim has a control beside it that breaks the rule and must be caught.
"""

import pytest

from decoding import advance
from decoding.methods import build_method
from tests.backbones.tiny import tiny_backbone
from tests.decoding.broken import (
    CorrectedInName,
    CorrectedWithOldLaws,
    FrozenTokens,
    HastyCommit,
    KeptLaws,
    StaleLaws,
    unshifted,
)
from tests.decoding.cases import LEAST, Case
from tests.decoding.tables import TableBackbone

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("without_shape_checks")]


def tiny(*grid, row_end=False):
    # Flat enough that every cell counts.
    return Case(tiny_backbone(*grid, row_end, seed=3), temperature=6.0)


@pytest.fixture(scope="module")
def line():
    """One row of four tokens: three drafts in one block."""
    return tiny(1, 4, 3)


@pytest.fixture(scope="module")
def square():
    return tiny(2, 2, 3, row_end=True)


@pytest.fixture(scope="module")
def tower():
    """Rows 1 and 2 are one block of three drafts."""
    return tiny(3, 2, 2)


@pytest.fixture(scope="module")
def table():
    """Two by two, laws that depend on the whole prefix: painted one by one, so it has to be fast."""
    return Case(TableBackbone(2, 2, 3), temperature=1.5)


@pytest.fixture(scope="module")
def line_table():
    """One row of four tokens, where a replaced token has neighbours to correct."""
    return Case(TableBackbone(1, 4, 3), temperature=1.0)


def test_autoregression_is_exact(square, line):
    method = build_method("ar", {}, None)
    assert square.p_value(method) > LEAST
    assert line.p_value(method) > LEAST


def test_ssd_is_exact_with_as_many_rounds_as_drafts(square, line, tower):
    assert line.p_value(line.ssd(first_row={"rounds": 3})) > LEAST
    assert square.p_value(square.ssd(rounds=4)) > LEAST
    assert tower.p_value(tower.ssd(rounds=3, rows=2)) > LEAST
    assert tower.p_value(tower.ssd(rounds=1, rows=2, staged_rounds=2)) > LEAST


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "fused"},
        {"schedule": "pipeline"},
        {"early_stop": True},
        {"corrections": 2},
        {"schedule": "pipeline", "corrections": 2},
    ],
    ids=str,
)
def test_ssd_beyond_the_paper_is_exact_with_as_many_rounds_as_drafts(square, options):
    assert square.p_value(square.ssd(rounds=4, **options)) > LEAST


def test_ssd_with_fewer_rounds_is_not(line, tower):
    assert line.p_value(line.ssd(first_row={"rounds": 1})) < LEAST
    assert tower.p_value(tower.ssd(rounds=0, rows=2)) < LEAST


def test_rounds_bring_the_law_nearer(line):
    distances = [line.distance(line.ssd(first_row={"rounds": rounds})) for rounds in range(4)]
    assert distances == sorted(distances, reverse=True)
    assert distances[0] > 5 * distances[3]


def test_control_draft_law_kept_after_a_round(line):
    assert line.p_value(line.ssd(StaleLaws, first_row={"rounds": 3})) < LEAST


def test_control_accepted_tokens_frozen(line):
    assert line.p_value(line.ssd(FrozenTokens, first_row={"rounds": 3})) < LEAST


def test_control_laws_without_the_shift(line, monkeypatch):
    monkeypatch.setattr(advance, "_laws", unshifted)
    assert line.p_value(line.ssd(first_row={"rounds": 3})) < LEAST


@pytest.mark.parametrize("window", [2, 4])
def test_ssd_exact_is_exact(table, window):
    assert table.p_value(table.exact(window=window, corrections=0)) > LEAST


@pytest.mark.parametrize("correction", [0.0, 2.0])
def test_corrected_drafts_keep_the_law(line_table, correction):
    """With laws far from the true ones: a random correction head, and the difference of a random h+1."""
    assert line_table.p_value(line_table.exact(correction=correction, corrections=3)) > LEAST


@pytest.mark.parametrize("kind", [CorrectedWithOldLaws, CorrectedInName])
def test_control_corrected_drafts_with_a_wrong_law(line_table, kind):
    assert line_table.p_value(line_table.exact(kind, correction=2.0)) < LEAST


def test_ssd_exact_on_a_trunk_is_exact(square):
    assert square.p_value(square.exact(), 600) > LEAST


def test_control_draft_law_kept_for_accepted_tokens(table):
    assert table.p_value(table.exact(KeptLaws)) < LEAST


def test_control_commit_past_the_first_change(table):
    assert table.p_value(table.exact(HastyCommit), 500) < LEAST


def test_control_exact_without_the_shift(table, monkeypatch):
    monkeypatch.setattr(advance, "_laws", unshifted)
    assert table.p_value(table.exact(), 500) < LEAST


@pytest.mark.slow
def test_corrected_drafts_at_many_images(line_table):
    for correction in (0.0, 2.0):
        method = line_table.exact(correction=correction, corrections=3)
        assert line_table.p_value(method, 10_000) > LEAST


@pytest.mark.slow
def test_ssd_exact_at_many_images(table):
    assert table.p_value(table.exact(), 20_000) > LEAST


@pytest.mark.slow
def test_exact_at_two_hundred_thousand_images(square, line, tower):
    images = 200_000
    assert square.p_value(build_method("ar", {}, None), images) > LEAST
    assert line.p_value(line.ssd(first_row={"rounds": 3}), images) > LEAST
    assert square.p_value(square.ssd(rounds=4), images) > LEAST
    assert tower.p_value(tower.ssd(rounds=3, rows=2), images) > LEAST
    assert tower.p_value(tower.ssd(rounds=1, rows=2, staged_rounds=2), images) > LEAST
    assert tower.p_value(tower.ssd(rounds=2, rows=2), images) < LEAST
