"""The engine on tiny backbones: the shift, the cache, equality with autoregression, images on their own."""

from dataclasses import replace

import pytest
import torch

from backbones.errors import RowcastError
from decoding import advance
from decoding.accounting import expected_forwards
from decoding.engine import generate
from decoding.methods import build_method
from decoding.methods.ssd import SSD
from decoding.noise import Noise
from decoding.options import parse_options
from tests.backbones.coordinates import CoordinateBackbone
from tests.backbones.tiny import tiny_backbone
from tests.decoding.banks import CoordinateBank, OracleBank, random_bank
from tests.decoding.broken import unshifted

pytestmark = pytest.mark.unit

PROMPTS = ["red shoe", "a very green coat on white"]
ENOUGH = {"block": 5, "rounds": 5}
SCHEDULES = [
    {"rounds": 7, "first_row": ENOUGH},
    {"rounds": 7, "first_row": {**ENOUGH, "bonus_token": True}},
    {"rounds": 12, "rows": 2, "first_row": ENOUGH},
    {"rounds": 6, "rows": 2, "staged_rounds": 6, "first_row": ENOUGH},
]


def greedy(backbone):
    return replace(backbone.sampling, temperature=0.0)


def run(backbone, name, options, heads=None, seed=0, prompts=PROMPTS, samples=None, sampling=None):
    noise = Noise(seed, prompts, samples or [0] * len(prompts))
    return generate(backbone, prompts, build_method(name, options, heads), noise, sampling)


@pytest.mark.parametrize("options", SCHEDULES, ids=["rows", "bonus", "joint", "staged"])
@pytest.mark.parametrize(("rows", "cols"), [(3, 5), (4, 3), (1, 7), (6, 1)])
@pytest.mark.parametrize("row_end", [False, True])
def test_greedy_with_enough_rounds_equals_autoregression(rows, cols, row_end, options):
    backbone = tiny_backbone(rows, cols, row_end=row_end)
    exact = run(backbone, "ar", {}, sampling=greedy(backbone))
    drafted = run(backbone, "ssd", options, random_bank(backbone.width), seed=1, sampling=greedy(backbone))
    assert torch.equal(drafted.tokens, exact.tokens)
    assert drafted.trace.forwards == expected_forwards(backbone.grid, "ssd", options)
    assert exact.trace.forwards == expected_forwards(backbone.grid, "ar", {}) == exact.trace.fed + 1


def test_greedy_with_too_few_rounds_differs():
    backbone = tiny_backbone()
    exact = run(backbone, "ar", {}, sampling=greedy(backbone))
    drafted = run(backbone, "ssd", {"rounds": 0}, random_bank(backbone.width), sampling=greedy(backbone))
    assert not torch.equal(drafted.tokens, exact.tokens)


@pytest.mark.parametrize("options", [{}, {"rows": 2}, {"rows": 2, "staged_rounds": 1}], ids=str)
@pytest.mark.parametrize("row_end", [False, True])
def test_true_states_as_drafts_are_never_changed(options, row_end):
    backbone = tiny_backbone(4, 5, row_end=row_end)
    exact = run(backbone, "ar", {}, sampling=greedy(backbone)).tokens
    oracle = OracleBank(backbone.states(backbone.encode(PROMPTS), exact))
    oracle.cols = 5
    unverified = run(backbone, "ssd", {**options, "rounds": 0}, oracle, sampling=greedy(backbone))
    assert torch.equal(unverified.tokens, exact)
    verified = run(backbone, "ssd", {**options, "rounds": 2}, oracle, sampling=greedy(backbone)).trace
    assert all(accepted == examined for accepted, examined in verified.acceptance().values())
    assert set(verified.changed_fraction()) == {0}
    assert verified.changed_map(backbone.grid).sum() == 0


@pytest.mark.parametrize("rounds", [0, 1])
@pytest.mark.parametrize("options", [{}, {"rows": 2}, {"rows": 2, "staged_rounds": 1}], ids=str)
@pytest.mark.parametrize(
    ("rows", "cols", "row_end", "header"), [(4, 7, False, 1), (5, 3, True, 2), (3, 6, True, 3)]
)
def test_every_pair_and_target_is_the_right_cell(rows, cols, row_end, header, options, rounds):
    backbone = CoordinateBackbone(rows, cols, row_end, header)
    bank = CoordinateBank()
    done = run(backbone, "ssd", {**options, "rounds": rounds}, bank, sampling=greedy(backbone))
    assert done.tokens.tolist() == [list(range(rows * cols))] * len(PROMPTS)
    assert not any(round_.changed.any() for round_ in done.trace.rounds)
    exact = {(0, 0), *((y, 0) for y in range(1, rows, options.get("rows", 1)))}
    assert sorted(bank.targets) == sorted({(y, x) for y in range(rows) for x in range(cols)} - exact)


def test_a_head_off_by_one_column_is_noticed():
    backbone = CoordinateBackbone(4, 5)
    trace = run(backbone, "ssd", {"rounds": 1}, CoordinateBank(shift=1), sampling=greedy(backbone)).trace
    assert trace.changed_fraction()[0] > 0.5


def test_laws_without_the_shift_are_noticed(monkeypatch):
    backbone = CoordinateBackbone(4, 5)
    monkeypatch.setattr(advance, "_laws", unshifted)
    with pytest.raises(AssertionError, match="the state of a pair must emit the token"):
        run(backbone, "ssd", {"rounds": 1}, CoordinateBank(), sampling=greedy(backbone))


class Witness(SSD):
    """Keeps the session for a look at it afterwards."""

    def propose(self, session):
        self.session = session
        return super().propose(session)


@pytest.mark.parametrize("options", [{}, {"rows": 2}, {"rows": 2, "staged_rounds": 2}], ids=str)
@pytest.mark.parametrize("row_end", [False, True])
def test_states_after_all_rollbacks_are_the_teacher_forced_ones(options, row_end):
    backbone = tiny_backbone(5, 4, row_end=row_end)
    method = Witness(parse_options("ssd", options), random_bank(backbone.width))
    tokens = generate(backbone, PROMPTS, method, Noise(0, PROMPTS, [0, 0])).tokens
    truth = backbone.states(backbone.encode(PROMPTS), tokens)
    assert (method.session.states[:, :-1] - truth).abs().max() < 1e-5
    assert backbone.length == backbone.grid.size


@pytest.mark.parametrize(("name", "options"), [("ar", {}), ("ssd", {"rounds": 1}), ("ssd", {"rows": 2})])
def test_an_image_does_not_depend_on_its_batch(name, options):
    backbone = tiny_backbone()
    bank = random_bank(backbone.width)
    prompts, samples = ["a b c", "d", "a b c"], [0, 4, 1]
    together = run(backbone, name, options, bank, prompts=prompts, samples=samples).tokens
    for order in ([0], [1], [2], [2, 0, 1], [1, 2]):
        chosen = [prompts[i] for i in order], [samples[i] for i in order]
        assert torch.equal(
            run(backbone, name, options, bank, prompts=chosen[0], samples=chosen[1]).tokens, together[order]
        )
    assert not torch.equal(together[0], together[2]), "another sample is another image"


def test_guidance_one_needs_no_unconditional_branch():
    backbone = tiny_backbone()
    plain = replace(backbone.sampling, guidance=1.0)
    done = run(backbone, "ssd", {}, random_bank(backbone.width), sampling=plain)
    assert done.tokens.shape == (2, backbone.grid.size)
    near = replace(backbone.sampling, guidance=1.0 + 1e-9)
    assert torch.equal(
        done.tokens, run(backbone, "ssd", {}, random_bank(backbone.width), sampling=near).tokens
    )


def test_phase_times_add_up_and_counters_count():
    backbone = tiny_backbone(3, 4)
    trace = run(backbone, "ssd", {"rounds": 1}, random_bank(backbone.width)).trace
    phases = {name: seconds for name, seconds in trace.seconds.items() if name != "total"}
    assert set(phases) == {"prefill", "draft", "forward", "verify", "commit", "other"}
    assert min(phases.values()) > 0
    assert sum(phases.values()) == pytest.approx(trace.seconds["total"])
    assert trace.head_calls == 3 + 2
    assert trace.fed == 2 * 12


def test_tokens_may_enter_autograd():
    tokens = run(tiny_backbone(), "ar", {}).tokens
    table = torch.nn.Embedding(11, 2)
    table(tokens).sum().backward()
    assert table.weight.grad is not None


def test_noise_for_other_images_is_refused():
    backbone = tiny_backbone()
    with pytest.raises(RowcastError, match="expected noise for 2 images, found 1"):
        generate(backbone, PROMPTS, build_method("ar", {}, None), Noise(0, ["a"], [0]))


@pytest.mark.parametrize(
    ("dtype", "advice"),
    [
        (torch.float16, r"set model\.dtype=float32"),
        (torch.float32, "check the weights with python -m backbones check"),
    ],
)
def test_states_that_overflow_stop_with_a_sentence(dtype, advice):
    backbone = tiny_backbone(dtype=dtype)
    backbone._table[3] = float("nan")
    with pytest.raises(RowcastError, match=rf"expected finite states, found NaN.*: {advice}"):
        run(backbone, "ar", {}, prompts=["a"] * 8, samples=list(range(8)))
