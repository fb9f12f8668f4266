"""The test of siblings by enumeration: whatever they were drawn from, the result follows the target law."""

import itertools

import pytest
import torch

from decoding.rules import tree as tree_module
from decoding.rules.rule import Strict
from decoding.rules.tree import NO_CHILD, Tree, draw_distinct, judge, without
from tests.decoding.tables import TableBackbone

pytestmark = pytest.mark.unit

NEARLY_ONE = 1 - 2**-53


def laws(codes):
    """Pairs (p, q): random, with zeros, equal, disjoint, one-hot."""
    generator = torch.Generator().manual_seed(codes)
    random = torch.rand(4, codes, generator=generator, dtype=torch.float64) ** 3
    zeros = random * (torch.rand(4, codes, generator=generator) < 0.6)
    zeros[:, 0] += 0.1
    half, eye = torch.arange(codes) < (codes + 1) // 2, torch.eye(codes, dtype=torch.float64)
    p, q = random[0], random[1]
    cases = [(p, q), (zeros[0], zeros[1]), (p, zeros[2]), (p, p), (p * half, q * ~half)]
    cases += [(p, eye[-1]), (eye[0], q), (eye[0], eye[1]), (eye[1], eye[1])]
    return [(a / a.sum(), b / b.sum()) for a, b in cases if a.sum() and b.sum()]


def children(count):
    return Tree((-1,) + (0,) * count)


def outcome(p, tokens, q):
    """Laws of the token below the root, a case a row: acceptance by bisection over the uniforms."""
    images, count = tokens.shape
    nodes = torch.cat([torch.zeros(images, 1, dtype=torch.long), tokens], 1)
    p = p[:, None].expand(-1, count + 1, -1)
    q = None if q is None else q[:, None].expand(-1, count + 1, -1)
    u = torch.full((images, count + 1), NEARLY_ONE, dtype=torch.float64)
    reach = torch.ones(images, dtype=torch.float64)
    law = torch.zeros(images, p.shape[-1], dtype=torch.float64)
    for child in range(1, count + 1):
        low, high = torch.zeros(images, dtype=torch.float64), torch.ones(images, dtype=torch.float64)
        for _ in range(30):
            u[:, child] = (low + high) / 2
            stays = judge(children(count), nodes, p, u, rule=Strict(), q=q)[0][:, 0] == child
            low, high = torch.where(stays, u[:, child], low), torch.where(stays, high, u[:, child])
        u[:, child] = NEARLY_ONE
        law.scatter_add_(1, tokens[:, child - 1 : child], (reach * low)[:, None])
        reach = reach * (1 - low)
    return law + reach[:, None] * judge(children(count), nodes, p, u, rule=Strict(), q=q)[1][:, 0]


def errors(pairs, count):
    """How far the result is from p for each pair (p, q), over all draws from q."""
    drawn = [drawn_without_replacement(q, count) for _, q in pairs]
    tokens = torch.cat([draws for draws, _ in drawn])
    p = torch.cat([p.expand(len(draws), -1) for (p, _), (draws, _) in zip(pairs, drawn, strict=True)])
    q = torch.cat([q.expand(len(draws), -1) for (_, q), (draws, _) in zip(pairs, drawn, strict=True)])
    results = outcome(p, tokens, q).split([len(draws) for draws, _ in drawn])
    return torch.tensor(
        [
            float((weights @ result - p).abs().max())
            for (p, _), (_, weights), result in zip(pairs, drawn, results, strict=True)
        ]
    )


def drawn_without_replacement(q, count):
    """All ordered draws and their probabilities; when the law is empty, the others are uniform."""
    draws = list(itertools.product(range(len(q)), repeat=count))
    weights = []
    for draw in draws:
        rest, weight = q.clone(), 1.0
        for code in draw:
            rest = rest / rest.sum() if rest.sum() > 0 else torch.full_like(q, 1 / len(q))
            weight *= float(rest[code])
            rest[code] = 0
        weights.append(weight)
    return torch.tensor(draws), torch.tensor(weights, dtype=torch.float64)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("codes", [2, 4])
def test_drawn_children_give_the_target_law(codes, count):
    assert errors(laws(codes), count).max() < 1e-6


@pytest.mark.parametrize("count", [1, 3])
def test_chosen_children_give_the_target_law(count):
    """Zero the rejected code and normalise; also if the choice holds a code twice."""
    targets = torch.stack([p for p, _ in laws(3)])
    choices = torch.tensor(list(itertools.product(range(3), repeat=count)))
    p, tokens = targets.repeat_interleave(len(choices), 0), choices.repeat(len(targets), 1)
    assert (outcome(p, tokens, None) - p).abs().max() < 1e-6


def test_more_children_catch_more():
    p, q = laws(4)[0]
    caught = []
    for count in (1, 2, 3):
        draws, weights = drawn_without_replacement(q, count)
        nodes = torch.cat([torch.zeros(len(draws), 1, dtype=torch.long), draws], 1)
        u = torch.full(nodes.shape, 0.7, dtype=torch.float64)
        p_, q_ = (law.expand(*nodes.shape, -1) for law in (p, q))
        chosen, _ = judge(children(count), nodes, p_, u, rule=Strict(), q=q_)
        caught.append(float(weights @ (chosen[:, 0] != NO_CHILD).double()))
    assert caught == sorted(caught)
    assert caught[0] < caught[2]


def test_control_judged_as_if_drawn_with_replacement(monkeypatch):
    monkeypatch.setattr(tree_module, "without", lambda law, tokens: law)
    assert errors(laws(4)[:2], 2).max() > 1e-2


def test_control_chosen_children_judged_as_drawn_ones():
    p, q = laws(4)[0]
    likely = q.argsort(descending=True)[None, :2]
    assert (outcome(p[None], likely, q[None]) - p).abs().max() > 1e-2


def test_a_law_without_a_code():
    q = torch.tensor([[0.5, 0.3, 0.2], [0.0, 1.0, 0.0]])
    rest = without(q, torch.tensor([0, 1]))
    assert torch.allclose(rest, torch.tensor([[0.0, 0.6, 0.4], [1 / 3, 1 / 3, 1 / 3]]))


def test_draws_are_distinct_and_follow_the_law():
    q = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    side = (torch.arange(200, dtype=torch.float64) + 0.5) / 200
    u = torch.cartesian_prod(side, side)
    drawn = draw_distinct(q.expand(len(u), -1), u)
    draws, weights = drawn_without_replacement(q, 2)
    shares = torch.bincount(drawn @ torch.tensor([3, 1]), minlength=9) / len(u)
    assert (shares - weights[draws @ torch.tensor([3, 1])]).abs().max() < 0.01
    assert (drawn[:, 0] != drawn[:, 1]).all()


SHAPE = Tree((-1, 0, 0, 1, 1, 3, 2))
"""0 has children 1 and 2, 1 has 3 and 4, 3 has 5, 2 has 6."""


def test_the_shape():
    assert SHAPE.depths == (0, 1, 1, 2, 2, 3, 2)
    assert [[part.tolist() for part in group] for group in SHAPE.generations] == [
        [[1, 3, 5, 6], [0, 1, 3, 2]],
        [[2, 4], [0, 1]],
    ]
    sees = SHAPE.sees(2)
    assert sees[:, :2].all()
    assert [row.nonzero()[:, 0].tolist() for row in sees[:, 2:]] == [
        [0],
        [0, 1],
        [0, 2],
        [0, 1, 3],
        [0, 1, 4],
        [0, 1, 3, 5],
        [0, 2, 6],
    ]
    assert SHAPE.path([1, 4, 6, 5, 0, 0, 0]) == [0, 1, 4]
    assert SHAPE.path([2, 3, 0, 0, 0, 0, 0]) == [0, 2]


def test_the_table_follows_each_path_of_a_tree():
    table, tokens = TableBackbone(2, 4, 3), torch.tensor([[1, 2, 0, 1, 2, 0, 2]])
    prompt = table.encode(["a"], guided=False)
    table.begin(prompt)
    table.forward(torch.tensor([[2]]))
    step = table.forward_at(tokens, [1 + depth for depth in SHAPE.depths], SHAPE.sees(1))
    for node in range(SHAPE.size):
        table.begin(prompt)
        alone = table.forward(torch.cat([torch.tensor([[2]]), tokens[:, SHAPE.lineage[node]]], 1))
        assert torch.equal(alone.logits[:, -1], step.logits[:, node])


def test_every_node_is_judged_as_if_it_were_alone():
    codes, generator = 4, torch.Generator().manual_seed(0)
    p, q = torch.rand(2, 3, 7, codes, generator=generator).softmax(-1)
    tokens = torch.randint(codes, (3, 7), generator=generator)
    u = torch.rand(3, 7, generator=generator)
    for law in (q, None):
        chosen, left = judge(SHAPE, tokens, p, u, rule=Strict(), q=law)
        for node in range(SHAPE.size):
            below = [child for child, parent in enumerate(SHAPE.parents) if parent == node]
            part = [node, *below]
            alone, rest = judge(
                children(len(below)),
                tokens[:, part],
                p[:, [node] * len(part)],
                u[:, part],
                rule=Strict(),
                q=None if law is None else law[:, [node] * len(part)],
            )
            assert torch.equal(torch.tensor(part)[alone[:, 0]] * (alone[:, 0] > 0), chosen[:, node])
            assert torch.equal(rest[:, 0], left[:, node])
            if not below:
                assert torch.equal(left[:, node], p[:, node])
