"""The relaxed tests: strict at zero relaxation, more accepting beyond, and each by a twin in plain Python."""

import itertools
from math import exp, log

import pytest
import torch

from backbones.errors import RowcastError
from backbones.rules import named, parse
from decoding.kernel import residual
from decoding.options.rules import RULES
from decoding.rules import build_rule
from decoding.rules.pooled import nearest
from decoding.rules.rule import Drafts, Strict
from tests.decoding.tables import TableBackbone
from tests.decoding.test_kernel import laws

pytestmark = pytest.mark.unit

ZERO = {
    "addition": {"epsilon": 0.0},
    "amplify": {"factor": 1.0},
    "csd": {"weight": 0.0},
    "cool_sd": {"scale": 1.0},
    "gsd": {"group": 1},
    "lantern": {"bound": 0.0},
    "lantern_pp": {"ratio": 1.0},
}
RELAXED = {
    "addition": {"epsilon": 0.2},
    "amplify": {"factor": 3.0},
    "csd": {"weight": 0.3, "threshold": 0.9},
    "cool_sd": {"scale": 2.0, "decay": 0.1},
    "gsd": {"group": 3, "probability": 1.0},
    "lantern": {"bound": 0.3},
    "lantern_pp": {"ratio": 3.0},
}


class Vectors(TableBackbone):
    """Codes with embeddings on a line, one apart, and code vectors whose order is another."""

    def __init__(self, codes):
        super().__init__(1, 2, codes)

    def embed(self, tokens):
        return tokens[..., None].float()

    def codebook(self):
        return ((torch.arange(self.codes) * 5) % self.codes)[:, None].float()


def rule(name, codes=6, **options):
    built = build_rule(parse(RULES[name], options, "decoder.rule"))
    built.bind(Vectors(codes))
    return built


def every_draft(p, q):
    """All drafts that a law can give, in one block."""
    tokens = torch.arange(len(p))
    return Drafts(
        p=p.expand(len(p), -1),
        q=q.expand(len(p), -1),
        tokens=tokens,
        order=tokens,
        age=tokens.flip(0),
    )


def acceptance(built, drafts):
    """Probability of accepting each, 0 where the law never gives it."""
    numerator, denominator = built.ratio(drafts)
    return (numerator / denominator).clamp(max=1).nan_to_num(0)


def test_every_rule_is_here():
    assert {"strict", *ZERO} == {"strict", *RELAXED} == set(RULES)


@pytest.mark.parametrize("name", ZERO)
def test_lossless_is_said_at_zero_relaxation_only(name):
    assert rule(name, **ZERO[name]).lossless
    assert not rule(name, **RELAXED[name]).lossless
    assert not rule(name).lossless


@pytest.mark.parametrize("name", ZERO)
@pytest.mark.parametrize("codes", [2, 6])
def test_zero_relaxation_is_the_strict_test_bit_for_bit(name, codes):
    u = torch.rand(codes, generator=torch.Generator().manual_seed(codes))
    for p, q in laws(codes):
        drafts, zero = every_draft(p, q), rule(name, codes, **ZERO[name])
        for found, wanted in zip(zero.ratio(drafts), Strict().ratio(drafts), strict=True):
            assert torch.equal(found, wanted)
        accepted = zero.accept(drafts, u)
        assert torch.equal(zero.repair(drafts, accepted, u), Strict().repair(drafts, accepted, u))


def random_laws(codes):
    generator = torch.Generator().manual_seed(codes)
    for _ in range(20):
        p, q = torch.rand(2, codes, generator=generator).pow(2)
        yield p / p.sum(), q / q.sum()


@pytest.mark.parametrize("name", sorted(set(RELAXED) - {"gsd"}))
@pytest.mark.parametrize("codes", [4, 8])
def test_no_draft_is_less_welcome_than_strictly(name, codes):
    built, more = rule(name, codes, **RELAXED[name]), 0
    for p, q in [*laws(codes), *random_laws(codes)]:
        drafts = every_draft(p, q)
        gain = acceptance(built, drafts) - acceptance(Strict(), drafts)
        assert gain.min() >= 0
        more += int(gain.max() > 0)
    assert more > 5


@pytest.mark.parametrize("codes", [3, 5, 8])
def test_groups_accept_more_on_average(codes):
    grouped, gain = rule("gsd", codes, group=3, probability=1.0, distance=None), 0.0
    for p, q in random_laws(codes):
        drafts = every_draft(p, q)
        gain += float((q * (acceptance(grouped, drafts) - acceptance(Strict(), drafts))).sum())
    assert gain > 0


def group_by_hand(p, token, size, probability, distance):
    order = sorted(range(len(p)), key=lambda code: (-p[code], code))
    rank = order.index(token)
    members = []
    for other in range(rank - (size - 1) // 2, rank + size // 2 + 1):
        if 0 <= other < len(p):
            code = order[other]
            near = abs(p[code] - p[token]) < probability
            near &= distance is None or (code - token) ** 2 < distance
            if near or code == token:
                members.append(code)
    return members


@pytest.mark.parametrize("size", [2, 3, 5, 14])
@pytest.mark.parametrize(("probability", "distance"), [(1.0, None), (0.15, None), (1.0, 4.5), (0.0, 0.1)])
def test_groups_by_hand_at_every_rank(size, probability, distance):
    for p, q in laws(7):
        built = rule("gsd", 7, group=size, probability=probability, distance=distance)
        numerator, denominator = built.ratio(every_draft(p, q))
        for token in range(7):
            members = group_by_hand(p.tolist(), token, size, probability, distance)
            assert numerator[token] == pytest.approx(float(p[members].sum()), abs=1e-6)
            assert denominator[token] == pytest.approx(float(q[members].sum()), abs=1e-6)


def test_the_likeliest_and_the_unlikeliest_draft_have_groups_too():
    """The public code's slice turns empty there, and so rejects in silence."""
    p = torch.tensor([0.4, 0.3, 0.2, 0.1])
    q = p.flip(0)
    a = acceptance(rule("gsd", 4, group=3, probability=1.0, distance=None), every_draft(p, q))
    assert a[0] == 1
    assert a[3] == pytest.approx(0.3 / 0.7)


@pytest.mark.parametrize("normalise", ["none", "log_k"])
def test_entropy_relaxes_where_the_laws_are_near(normalise):
    weight, threshold = 0.2, 0.5
    for p, q in laws(5):
        entropy = -sum(x * log(x) for x in p.tolist() if x > 0)
        support = sum(x > 0 for x in p.tolist())
        if normalise == "log_k":
            entropy /= log(max(support, 2))
        near = float((p - q).abs().sum()) / 2 < threshold
        built = rule("csd", 5, weight=weight, threshold=threshold, normalise=normalise)
        found = acceptance(built, every_draft(p, q))
        for token in range(5):
            if q[token] > 0:
                wanted = min(1.0, float(p[token] / q[token]) + weight * entropy * near)
                assert found[token] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize(("by", "decay"), [("place", 0.7), ("round", 0.7), ("round", -0.7)])
def test_annealing_counts_places_or_rounds_and_never_falls_below_strict(by, decay):
    p, q = laws(6)[0]
    drafts = every_draft(p, q)
    found = acceptance(rule("cool_sd", scale=2.0, decay=decay, by=by), drafts)
    for token, order, age in zip(range(6), drafts.order.tolist(), drafts.age.tolist(), strict=True):
        omega = max(1.0, 2.0 * exp(-decay * (order if by == "place" else age)))
        assert found[token] == pytest.approx(min(1.0, omega * float(p[token] / q[token])), abs=1e-6)


def test_annealing_that_grows_without_bound_stays_finite():
    p, q = torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5])
    drafts = Drafts(
        p=p.expand(2, -1),
        q=q.expand(2, -1),
        tokens=torch.arange(2),
        order=torch.tensor(0),
        age=torch.tensor(1000),
    )
    growing = rule("cool_sd", 2, decay=-5.0, by="round")
    assert growing.accept(drafts, torch.tensor([0.9, 0.0])).tolist() == [True, False]


def pool_by_hand(p, neighbours, bound):
    pool, mass = [], 0.0
    for code in neighbours:
        mass += p[code]
        if mass > bound + 1e-7:
            break
        pool.append(code)
    return pool


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lantern", {"bound": 0.25}),
        ("lantern_pp", {"ratio": 2.5}),
        ("lantern", {"bound": 0.9, "neighbours": 2}),
    ],
)
def test_pools_by_hand(name, options):
    codes = 7
    vectors = Vectors(codes).codebook()[:, 0].tolist()
    count = min(options.get("neighbours", 1000), codes - 1)
    for p, q in laws(codes):
        built = rule(name, codes, **options)
        drafts = every_draft(p, q)
        numerator, _ = built.ratio(drafts)
        leftover = built.leftover(drafts)
        for token in range(codes):
            # Ties in distance are the search's own affair: what it found is in order, that is checked below.
            neighbours = built._neighbours[token].tolist()
            distances = [abs(vectors[code] - vectors[token]) for code in neighbours]
            assert distances == sorted(abs(v - vectors[token]) for v in vectors)[1 : count + 1]
            bound = options["bound"] if name == "lantern" else 1.5 * float(p[token])
            pool = pool_by_hand(p.tolist(), neighbours, bound)
            target = p.clone()
            target[pool] = 0
            target[token] = p[token] + p[pool].sum()
            assert numerator[token] == pytest.approx(float(target[token]), abs=1e-6)
            assert (leftover[token] - residual(target, q)).abs().max() < 1e-6


def test_a_rejected_certain_draft_takes_its_pool_away_and_nothing_else():
    """Drafts of a tree have all mass on them; the public code zeroes every neighbour it looked at."""
    codes, p = 6, torch.tensor([0.3, 0.2, 0.3, 0.1, 0.04, 0.06])
    token = torch.tensor([0])
    built = rule("lantern", codes, bound=0.12)
    pool = pool_by_hand(p.tolist(), built._neighbours[0].tolist(), 0.12)
    assert pool == [5, 4]
    drafts = Drafts(p=p[None], q=torch.eye(codes)[token], tokens=token, order=token, age=token)
    gone = torch.zeros(codes, dtype=torch.bool)
    gone[[0, *pool]] = True
    wanted = p.masked_fill(gone, 0)
    assert torch.allclose(built.leftover(drafts)[0], wanted / wanted.sum())


def test_neighbours_leave_the_code_itself_out_even_among_duplicates(monkeypatch):
    codebook = torch.tensor([[0.0], [0.0], [3.0], [1.0], [3.0]])
    monkeypatch.setattr("decoding.rules.pooled.ROWS", 2)
    found = nearest(codebook, 4)
    for code, neighbours in enumerate(found.tolist()):
        assert sorted([code, *neighbours]) == list(range(5))
        distances = [float((codebook[n] - codebook[code]).abs()) for n in neighbours]
        assert distances == sorted(distances)


def test_neighbours_are_looked_up_once_a_backbone():
    calls = []

    class Counting(Vectors):
        def codebook(self):
            calls.append(self)
            return super().codebook()

    first, second = Counting(5), Counting(5)
    for backbone, _ in itertools.product((first, second), range(2)):
        built = build_rule(parse(RULES["lantern"], {}, "decoder.rule"))
        built.bind(backbone)
    assert calls == [first, second]


def test_a_backbone_without_codebook_says_so():
    class Blind(Vectors):
        def codebook(self):
            raise RowcastError("expected VQ weights, found none: pass model.pixels")

    with pytest.raises(RowcastError, match=r"pass model\.pixels"):
        build_rule(parse(RULES["lantern_pp"], {}, "decoder.rule")).bind(Blind(4))


@pytest.mark.parametrize("name", RELAXED)
def test_any_batch_shape(name):
    p, q = (law.expand(2, 3, -1) for law in laws(6)[0])
    tokens = torch.tensor([[0, 1, 2], [3, 4, 5]])
    block = Drafts(
        p=p, q=q, tokens=tokens, order=torch.arange(3)[None], age=torch.zeros(1, 1, dtype=torch.long)
    )
    built, u = rule(name, **RELAXED[name]), torch.full((2, 3), 0.7)
    accepted = built.accept(block, u)
    repaired = built.repair(block, accepted, u)
    for i, j in itertools.product(range(2), range(3)):
        one = Drafts(p=p[i, j], q=q[i, j], tokens=tokens[i, j], order=torch.tensor(j), age=torch.tensor(0))
        assert built.accept(one, u[i, j]) == accepted[i, j]
        assert built.repair(one, accepted[i, j], u[i, j]) == repaired[i, j]


def test_rules_are_chosen_by_name():
    kinds = named(RULES)
    from dataclasses import dataclass, field

    @dataclass(frozen=True, kw_only=True)
    class Options:
        rule: object = field(default=None, metadata=kinds)

    parsed = parse(Options, {"rule": {"name": "gsd", "group": 25}}, "decoder")
    assert build_rule(parsed.rule).options.group == 25  # pyright: ignore
    with pytest.raises(RowcastError, match=r"decoder.rule.name: expected one of strict, .*found 'gds'"):
        parse(Options, {"rule": {"name": "gds"}}, "decoder")
    with pytest.raises(
        RowcastError, match=r"unknown option decoder.rule.groups: did you mean decoder.rule.group"
    ):
        parse(Options, {"rule": {"name": "gsd", "groups": 25}}, "decoder")
