"""The Jacobi family: greedy equality, SJD's accounting, couplings, starts, posterior, rules."""

from dataclasses import replace

import pytest
import torch

from backbones.errors import RowcastError
from conf.decoders import decoder_options
from decoding.accounting import forward_bounds
from decoding.engine import generate
from decoding.kernel import race
from decoding.methods import build_method
from decoding.methods.growth import Growth
from decoding.methods.jacobi import Jacobi
from decoding.noise import Noise
from decoding.options import parse_options
from decoding.options.jacobi import GrowthPosterior
from decoding.rules.rule import Drafts
from tests.backbones.tiny import tiny_backbone
from tests.decoding.tables import TableBackbone
from tests.decoding.test_rules import ZERO

pytestmark = pytest.mark.unit

PROMPT = "a very green coat on white"
GROWTH = {"name": "growth", "rounds": 1, "memory": 0.3}
LOSSLESS = {
    "sjd": {},
    "maximal": {"coupling": "maximal"},
    "gumbel": {"coupling": "gumbel"},
    "repeat": {"start": "repeat_left"},
    "sample": {"start": "sample_left", "coupling": "gumbel"},
    "growth": {"posterior": GROWTH},
    "growth_maximal": {"posterior": GROWTH, "coupling": "maximal"},
}


def run(backbone, method, seed=0, temperature=1.0, guidance=None):
    sampling = replace(backbone.sampling, temperature=temperature)
    if guidance is not None:
        sampling = replace(sampling, guidance=guidance)
    return generate(backbone, [PROMPT], method, Noise(seed, [PROMPT], [0]), sampling)


def jacobi(kind=Jacobi, **options):
    return kind(parse_options("jacobi", options))


def check_greedy(backbone, windows, guidance=None, **options):
    baseline = run(backbone, build_method("ar", {}, None), temperature=0.0, guidance=guidance)
    for window in windows:
        painted = run(backbone, jacobi(window=window, **options), temperature=0.0, guidance=guidance)
        least, most = forward_bounds(backbone.grid, "jacobi", {"window": window, **options})
        assert torch.equal(painted.tokens, baseline.tokens)
        assert least <= painted.trace.forwards <= most
        assert painted.trace.head_calls == 0


@pytest.mark.parametrize(
    ("rows", "cols", "row_end"), [(3, 4, False), (3, 4, True), (1, 7, False), (6, 1, True)]
)
def test_greedy_equals_autoregression(rows, cols, row_end):
    check_greedy(tiny_backbone(rows, cols, row_end=row_end), (1, 2, cols + 3, rows * cols + 4))


@pytest.mark.parametrize("name", LOSSLESS)
def test_greedy_equals_autoregression_however_drafts_are_made(name):
    check_greedy(tiny_backbone(3, 4, row_end=True), (7,), **LOSSLESS[name])


@pytest.mark.parametrize("guidance", [1.0, 3.0])
def test_greedy_equals_autoregression_at_any_guidance(guidance):
    check_greedy(tiny_backbone(3, 4), (6,), guidance)


@pytest.mark.parametrize("rule", ZERO)
@pytest.mark.parametrize("name", LOSSLESS)
def test_at_zero_relaxation_every_rule_paints_the_same_image(name, rule):
    backbone = TableBackbone(2, 3, 5)
    strict = run(backbone, jacobi(window=4, **LOSSLESS[name]), seed=3)
    zero = jacobi(window=4, **LOSSLESS[name], rule={"name": rule, **ZERO[rule]})
    assert zero.lossless
    same = run(backbone, zero, seed=3)
    assert torch.equal(same.tokens, strict.tokens)
    assert same.trace.forwards == strict.trace.forwards


BOUNDLESS = {
    "addition": {"epsilon": 1.0},
    "amplify": {"factor": 1e6},
    "csd": {"weight": 1e6, "threshold": 1.0},
    "cool_sd": {"scale": 1000.0, "decay": 0.0},
    "gsd": {"group": 9, "probability": 1.0},
    "lantern": {"bound": 1.0},
    "lantern_pp": {"ratio": 1e6},
}


@pytest.mark.parametrize("rule", BOUNDLESS)
def test_relaxed_without_bound_all_drafts_stay(rule):
    backbone = TableBackbone(2, 3, 5)
    method = jacobi(window=3, rule={"name": rule, **BOUNDLESS[rule]})
    assert not method.lossless
    painted = run(backbone, method)
    assert painted.trace.forwards == forward_bounds(backbone.grid, "jacobi", {"window": 3})[0] == 3
    assert painted.trace.changed_map(backbone.grid).sum() == 0


class Recorder(Jacobi):
    """Keeps what each forward judged, and how."""

    def propose(self, session):
        if session.steps == 0:
            self.rounds = []
        return super().propose(session)

    def judge(self, session, drafts, u_accept, u_draw):
        verdict = super().judge(session, drafts, u_accept, u_draw)
        clone = replace(drafts, tokens=drafts.tokens.clone())  # the session writes into them
        self.rounds.append(
            (session.committed, clone, verdict, session.labels[session.committed : session.end])
        )
        return verdict


@pytest.mark.parametrize("window", [2, 4, 9])
def test_progress_is_that_of_sjd(window):
    """A forward makes final: the accepted prefix and the repaired token, or all of it and a bonus token.

    The token of the prefill is the first input; the bonus of a window is drawn by the step after it, from
    the law that it left. The last window has no place for one.
    """
    backbone = TableBackbone(3, 3, 4)
    method = jacobi(Recorder, window=window)
    stood = 0
    for seed in range(6):
        trace = run(backbone, method, seed).trace
        size, done = backbone.grid.size, 1
        for start, drafts, verdict, _ in method.rounds:
            assert start == done
            length = drafts.tokens.shape[1]
            assert length == min(window, size - done + 1) - 1
            prefix = int(verdict.accepted[0].int().cumprod(0).sum())
            stood += prefix == length
            done += prefix + (done + prefix < size)
        assert done == size
        assert trace.forwards == 1 + len(method.rounds)
    assert stood > 0


@pytest.mark.parametrize("coupling", ["resample", "maximal", "gumbel"])
def test_what_becomes_of_the_drafts_after_a_replaced_one(coupling):
    """Laws of five codes that hardly depend on the prefix: couplings keep most drafts, chance a fifth."""
    backbone = TableBackbone(2, 4, 5)
    backbone.table *= 0.1
    method = jacobi(Recorder, window=8, coupling=coupling)
    kept = drawn = 0
    for seed in range(40):
        run(backbone, method, seed)
        for _, drafts, verdict, _ in method.rounds:
            assert torch.equal(verdict.laws, drafts.p)
            changed = (verdict.tokens != drafts.tokens)[0]
            later = changed.int().cumsum(0) > changed.int()
            if coupling == "maximal":
                assert torch.equal(changed[later], ~verdict.accepted[0, later])
            old = later & (drafts.age[0] > 0)
            kept += int((old & ~changed).sum())
            drawn += int(old.sum())
    assert drawn > 20
    assert kept / drawn < 0.4 if coupling == "resample" else kept / drawn > 0.7


def test_gumbel_noise_belongs_to_the_position_while_it_is_open():
    backbone = TableBackbone(2, 4, 5)

    class Witness(Recorder):
        def judge(self, session, drafts, u_accept, u_draw):
            verdict = super().judge(session, drafts, u_accept, u_draw)
            start, clocks = session.memory["clocks"]
            assert (start, clocks.shape[1]) == (session.committed, session.end - session.committed)
            for place, noise in enumerate(clocks[0], start):
                assert torch.equal(self.seen.setdefault(place, noise), noise)
            changed = (verdict.tokens != drafts.tokens)[0]
            if changed.any():
                later = slice(int(changed.int().argmax()) + 1, None)
                assert torch.equal(verdict.tokens[0, later], race(drafts.p, clocks)[0, later])
            return verdict

    method = jacobi(Witness, window=5, coupling="gumbel")
    method.seen = {}
    run(backbone, method)
    assert len(method.seen) == 7
    assert len({tuple(noise.tolist()) for noise in method.seen.values()}) == 7


def test_the_race_draws_from_its_law_and_never_what_has_no_mass():
    p = torch.tensor([0.5, 0.0, 0.2, 0.3])
    u = torch.rand(100_000, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn = race(p.expand(len(u), -1), -u.log().float())
    share = torch.bincount(drawn, minlength=4) / len(u)
    assert share[1] == 0
    assert (share - p).abs().max() < 0.01


@pytest.mark.parametrize("start", ["random", "repeat_left", "sample_left"])
def test_new_drafts_lean_on_the_left_neighbour_but_in_the_first_column(start):
    backbone = TableBackbone(3, 3, 5)
    method = jacobi(Recorder, window=5, start=start)
    leaning = 0
    for seed in range(6):
        tokens = run(backbone, method, seed).tokens
        for begin, drafts, _, labels in method.rounds:
            fresh = [i for i, age in enumerate(drafts.age[0].tolist()) if age == 0]
            for i in fresh:
                place = begin + i
                left = start != "random" and place % 3 > 0
                assert labels[i] == ("left" if left else "random")
                assert torch.equal(drafts.q[0, i], torch.eye(5)[drafts.tokens[0, i]])
                if left and start == "repeat_left":
                    last = tokens[0, begin - 1] if fresh[0] == 0 else drafts.tokens[0, fresh[0] - 1]
                    assert drafts.tokens[0, i] == last
                    leaning += 1
                if left and start == "sample_left" and fresh[0] > 0:
                    assert drafts.tokens[0, i] == drafts.q[0, fresh[0] - 1].argmax()
                    leaning += 1
    assert (leaning > 8) == (start != "random")


def growth_by_hand(laws, rounds, memory):
    """The posterior after the last of several laws of one position."""
    mean, law = list(laws[0]), list(laws[-1])
    for earlier in laws[1:-1]:
        mean = [memory * m + (1 - memory) * p for m, p in zip(mean, earlier, strict=True)]
    weights = []
    for code, p in enumerate(law):
        rises = len(laws) > rounds and all(laws[-t][code] > laws[-t - 1][code] for t in range(1, rounds + 1))
        weights.append(p * p / mean[code] if rises else p)
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize(("rounds", "memory"), [(1, 0.0), (2, 0.5), (3, 0.9), (3, 0.5)])
def test_the_posterior_by_hand(rounds, memory):
    """A window that moves on by one or two positions a round; each position has its own history."""
    generator = torch.Generator().manual_seed(rounds)
    growth = Growth(GrowthPosterior(rounds=rounds, memory=memory))
    drift = torch.randn(40, 6, generator=generator)
    past, start, history, ages, risen = None, 0, {}, {}, 0
    for round_ in range(15):
        start += round_ % 3
        places = range(start, start + 5)
        noise = 0.1 * torch.randn(5, 6, generator=generator)
        p = (drift[list(places)] * torch.tensor([[0.2 * ages.get(k, 0)] for k in places]) + noise).softmax(-1)
        age = torch.tensor([[ages.get(k, 0) for k in places]])
        tokens = torch.zeros(1, 5, dtype=torch.long)
        drafts = Drafts(p=p[None], q=p[None], tokens=tokens, order=tokens, age=age)
        posterior, past = growth(drafts, start, past)
        for i, place in enumerate(places):
            history.setdefault(place, []).append(p[i].tolist())
            ages[place] = ages.get(place, 0) + 1
            wanted = torch.tensor(growth_by_hand(history[place], rounds, memory))
            assert (posterior[0, i] - wanted).abs().max() < 1e-5
            risen += int((posterior[0, i] - p[i]).abs().max() > 1e-3)
    assert risen > 10


def test_the_posterior_of_a_code_that_was_impossible_is_finite():
    growth, past = Growth(GrowthPosterior(rounds=1, memory=0.0)), None
    tokens = torch.zeros(1, 1, dtype=torch.long)
    for age, law in enumerate(([1.0, 0.0], [0.5, 0.5])):
        p = torch.tensor([[law]])
        drafts = Drafts(p=p, q=p, tokens=tokens, order=tokens, age=tokens + age)
        posterior, past = growth(drafts, 0, past)
    assert posterior[0, 0].tolist() == pytest.approx([0, 1])


PRESETS = {
    "sjd": {},
    "mc_sjd": {"coupling": "maximal"},
    "mc_sjd_gumbel": {"coupling": "gumbel"},
    "sjd_vp": {"posterior": {"name": "growth", "rounds": 3, "memory": 0.5}},
    "gsd": {"rule": "gsd"},
    "gsd_vp": {"rule": "gsd", "posterior": {"name": "growth", "rounds": 3, "memory": 0.5}},
    "csd": {"rule": "csd"},
    "addition": {"rule": "addition"},
    "amplify": {"rule": "amplify"},
    "cool_sd": {"rule": "cool_sd"},
    "lantern_sjd": {"rule": "lantern"},
    "lantern_pp_sjd": {"rule": "lantern_pp"},
}


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_what_their_names_say_and_paint(preset):
    options = decoder_options(preset)
    assert options.pop("name") == "jacobi"
    wanted = {"window": 40, "start": "random", "coupling": "resample", "posterior": {"name": "none"}}
    wanted |= PRESETS[preset]
    assert {name: options[name] for name in ("window", "start", "coupling", "posterior")} == {
        name: wanted[name] for name in ("window", "start", "coupling", "posterior")
    }
    assert options["rule"]["name"] == wanted.get("rule", "strict")
    method = build_method("jacobi", options, None)
    assert method.lossless == ("rule" not in PRESETS[preset])
    assert run(tiny_backbone(2, 3, row_end=True), method).trace.fed > 0


def test_several_images_at_a_time_are_refused():
    backbone = tiny_backbone()
    with pytest.raises(RowcastError, match="one image at a time for decoder jacobi, found 2: set batch=1"):
        generate(backbone, ["a", "b"], jacobi(), Noise(0, ["a", "b"], [0, 0]))


@pytest.mark.parametrize("row_end", [False, True])
@pytest.mark.parametrize("coupling", ["resample", "gumbel"])
def test_states_after_all_rollbacks_are_the_teacher_forced_ones(coupling, row_end):
    backbone = tiny_backbone(5, 4, row_end=row_end)

    class Witness(Jacobi):
        def propose(self, session):
            self.session = session
            return super().propose(session)

    method = jacobi(Witness, window=9, coupling=coupling)
    painted = run(backbone, method)
    truth = backbone.states(backbone.encode([PROMPT]), painted.tokens)
    assert (method.session.states[:, :-1] - truth).abs().max() < 1e-5
    assert any(round_.changed.any() for round_ in painted.trace.rounds), "nothing was rolled back"
    assert backbone.length == method.session.cached
