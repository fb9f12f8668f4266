"""1-D multi-token prediction: equality with autoregression, geometry along the raster, counts, options."""

from dataclasses import replace

import pytest
import torch

from backbones.contract import Grid
from backbones.errors import RowcastError
from decoding.accounting import expected_forwards, forward_bounds
from decoding.engine import generate
from decoding.methods import build_method
from decoding.methods.mtp import MTPStrict
from decoding.noise import Noise
from decoding.options import parse_options
from tests.backbones.coordinates import CoordinateBackbone
from tests.backbones.tiny import tiny_backbone
from tests.decoding.drafters import CoordinateMTP, OracleMTP, random_mtp

pytestmark = pytest.mark.unit

PROMPTS = ["a very green coat on white", "shoe"]
GRIDS = [(3, 5), (4, 3), (1, 7), (6, 1)]


def run(backbone, name, options, heads=None, seed=0, prompts=PROMPTS[:1], temperature=0.0):
    method = name if not isinstance(name, str) else build_method(name, options, heads)
    sampling = replace(backbone.sampling, temperature=temperature)
    return generate(backbone, prompts, method, Noise(seed, prompts, [0] * len(prompts)), sampling)


@pytest.mark.parametrize(("rows", "cols"), GRIDS)
@pytest.mark.parametrize("row_end", [False, True])
def test_greedy_equals_autoregression(rows, cols, row_end):
    backbone = tiny_backbone(rows, cols, row_end=row_end)
    heads = random_mtp(backbone.width)
    exact = run(backbone, "ar", {}, prompts=PROMPTS).tokens
    for options in ({"rounds": 5}, {"rounds": 3, "block": 3}, {"rounds": 5, "bonus_token": True}):
        drafted = run(backbone, "mtp", options, heads, prompts=PROMPTS)
        assert torch.equal(drafted.tokens, exact)
        assert drafted.trace.forwards == expected_forwards(backbone.grid, "mtp", options)
    for options in ({}, {"block": 1}, {"block": 3}):
        drafted = run(backbone, "mtp_strict", options, heads)
        least, most = forward_bounds(backbone.grid, "mtp_strict", options)
        assert torch.equal(drafted.tokens, exact[:1])
        assert least <= drafted.trace.forwards <= most


def test_greedy_with_too_few_rounds_differs():
    backbone = tiny_backbone()
    exact = run(backbone, "ar", {}).tokens
    assert not torch.equal(run(backbone, "mtp", {"rounds": 0}, random_mtp(backbone.width)).tokens, exact)


class Gullible(MTPStrict):
    """Takes every draft."""

    def accept(self, drafts, u):
        return torch.ones_like(drafts.tokens, dtype=torch.bool)


def test_greedy_shows_a_draft_taken_untested():
    backbone = tiny_backbone()
    exact = run(backbone, "ar", {}).tokens
    method = Gullible(parse_options("mtp_strict", {}), random_mtp(backbone.width))
    assert not torch.equal(run(backbone, method, {}).tokens, exact)


@pytest.mark.parametrize("row_end", [False, True])
def test_true_states_as_drafts_commit_all_of_them(row_end):
    backbone = tiny_backbone(5, 4, row_end=row_end)
    exact = run(backbone, "ar", {}).tokens
    oracle = OracleMTP(backbone.states(backbone.encode(PROMPTS[:1]), exact))
    unverified = run(backbone, "mtp", {"rounds": 0}, oracle)
    assert torch.equal(unverified.tokens, exact)
    for block in (2, 5):
        strict = run(backbone, "mtp_strict", {"block": block}, oracle)
        assert torch.equal(strict.tokens, exact)
        assert strict.trace.forwards == forward_bounds(backbone.grid, "mtp_strict", {"block": block})[0]
        assert all(stood == tried for stood, tried in strict.trace.acceptance().values())
        assert list(strict.trace.acceptance()) == [f"t+{step}" for step in range(1, block + 1)]


@pytest.mark.parametrize(("rows", "cols", "row_end", "header"), [(4, 7, False, 1), (5, 3, True, 2)])
@pytest.mark.parametrize(
    ("name", "options"), [("mtp", {}), ("mtp", {"bonus_token": True}), ("mtp_strict", {})]
)
def test_every_pair_and_target_is_the_right_cell(rows, cols, row_end, header, name, options):
    """Across the ends of rows: the next token of the last cell of a row is the first of the next."""
    backbone, heads = CoordinateBackbone(rows, cols, row_end, header), CoordinateMTP(cols)
    done = run(backbone, name, options, heads)
    assert done.tokens.tolist() == [list(range(rows * cols))]
    assert not any(round_.changed.any() for round_ in done.trace.rounds)
    assert len(set(heads.targets)) == len(heads.targets), "a cell is drafted once"
    drafted = len(heads.targets)
    exact = {"mtp_strict": (rows * cols + 5) // 6, "mtp": 1}[name] if not options else rows * cols // 6 + 1
    assert drafted >= rows * cols - exact


def test_strict_drafts_are_thrown_away_after_the_first_rejection():
    """All drafts of a step lean on one pair, and none is judged twice."""
    backbone = tiny_backbone(4, 5)
    trace = run(backbone, "mtp_strict", {}, random_mtp(backbone.width), temperature=1.0).trace
    assert {round_.index for round_ in trace.rounds} == {0}
    for round_ in trace.rounds:
        assert round_.offsets == [f"t+{step}" for step in range(1, len(round_.offsets) + 1)]
    assert trace.fed == sum(len(round_.offsets) + 1 for round_ in trace.rounds) + trace.forwards - 1 - len(
        trace.rounds
    )
    assert trace.head_calls == sum(len(round_.offsets) for round_ in trace.rounds)


@pytest.mark.parametrize("row_end", [False, True])
def test_states_after_all_rollbacks_are_the_teacher_forced_ones(row_end):
    class Witness(MTPStrict):
        def propose(self, session):
            self.session = session
            return super().propose(session)

    backbone = tiny_backbone(5, 4, row_end=row_end)
    method = Witness(parse_options("mtp_strict", {}), random_mtp(backbone.width))
    painted = run(backbone, method, {}, temperature=1.0)
    truth = backbone.states(backbone.encode(PROMPTS[:1]), painted.tokens)
    reached = method.session.cached
    assert (method.session.states[:, :reached] - truth[:, :reached]).abs().max() < 1e-5
    assert any(round_.changed.any() for round_ in painted.trace.rounds), "nothing was rolled back"


def test_an_image_does_not_depend_on_its_batch():
    backbone = tiny_backbone()
    heads = random_mtp(backbone.width)
    together = run(backbone, "mtp", {}, heads, prompts=PROMPTS, temperature=1.0).tokens
    for index, prompt in enumerate(PROMPTS):
        alone = run(backbone, "mtp", {}, heads, prompts=[prompt], temperature=1.0).tokens
        assert torch.equal(alone[0], together[index])


def test_counts_follow_the_reach_of_the_heads():
    """The papers' 2 to 2.4 tokens a forward: blocks of five, a round and a commit each."""
    grid = Grid(rows=48, cols=48)
    assert expected_forwards(grid, "mtp", {}) == 1 + 461 * 2
    assert expected_forwards(grid, "mtp", {"block": 3, "rounds": 2}) == 1 + 768 * 3
    assert forward_bounds(grid, "mtp_strict", {}) == (1 + 384, 48 * 48)


@pytest.mark.parametrize("name", ["mtp", "mtp_strict"])
def test_blocks_beyond_the_heads_are_refused(name):
    with pytest.raises(RowcastError, match=r"decoder.block 1 to 3, found 4: the draft heads reach 3 tokens"):
        build_method(name, {"block": 4}, random_mtp(8, ahead=3))
