"""EAGLE and LANTERN: equality with autoregression, the shape of trees, what a drafter sees, counts, rules."""

import itertools
from dataclasses import replace

import pytest
import torch

from backbones.errors import RowcastError
from decoding.accounting import forward_bounds
from decoding.engine import generate
from decoding.methods import build_method
from decoding.methods.eagle import Eagle
from decoding.methods.tree_drafts import Drafter, grow
from decoding.noise import Noise
from decoding.options import parse_options
from decoding.options.drafters import EagleOptions
from tests.backbones.coordinates import CoordinateBackbone
from tests.backbones.tiny import tiny_backbone
from tests.decoding.drafters import CoordinateDrafter, OracleDrafter, random_drafter
from tests.decoding.tables import TableBackbone

pytestmark = pytest.mark.unit

PROMPT = "a very green coat on white"
SHAPES = [
    {"depth": 3, "children": 2, "nodes": 4},
    {"depth": 2, "children": 50, "nodes": 30},
    {"depth": 1, "children": 1, "nodes": 1},
    {"depth": 4, "children": 3, "nodes": 40, "tree": "static"},
]


def run(backbone, method, seed=0, **law):
    sampling = replace(backbone.sampling, **law)
    return generate(backbone, [PROMPT], method, Noise(seed, [PROMPT], [0]), sampling)


def eagle(drafter, kind=Eagle, **options):
    return kind(parse_options("eagle", options), drafter)


class Witness(Eagle):
    """Keeps the session and the trees for a look at them afterwards."""

    def propose(self, session):
        self.session, going = session, super().propose(session)
        if going:
            self.trees = [*getattr(self, "trees", []), session.memory["tree"][0]]
        return going


@pytest.mark.parametrize(
    ("rows", "cols", "row_end"), [(3, 5, False), (4, 3, True), (1, 7, False), (6, 1, True)]
)
def test_greedy_equals_autoregression(rows, cols, row_end):
    backbone = tiny_backbone(rows, cols, row_end=row_end)
    for guidance, options in itertools.product((1.0, 2.0), SHAPES):
        law = {"temperature": 0.0, "guidance": guidance}
        exact = run(backbone, build_method("ar", {}, None), **law)
        painted = run(backbone, eagle(random_drafter(backbone.width), **options), seed=1, **law)
        least, most = forward_bounds(backbone.grid, "eagle", options)
        assert torch.equal(painted.tokens, exact.tokens)
        assert least <= painted.trace.forwards <= most


@pytest.mark.parametrize("row_end", [False, True])
@pytest.mark.parametrize("tree", ["dynamic", "static"])
def test_true_states_as_drafts_commit_a_whole_depth_a_forward(row_end, tree):
    backbone = tiny_backbone(5, 4, row_end=row_end)
    exact = run(backbone, build_method("ar", {}, None), temperature=0.0).tokens
    oracle = OracleDrafter(backbone.states(backbone.encode([PROMPT]), exact))
    for depth in (1, 3, 6):
        options = {"depth": depth, "children": 3, "nodes": 40, "tree": tree}
        painted = run(backbone, eagle(oracle, **options), temperature=0.0)
        assert torch.equal(painted.tokens, exact)
        assert painted.trace.forwards == forward_bounds(backbone.grid, "eagle", options)[0]
        assert all(stood == tried for stood, tried in painted.trace.acceptance().values())
        assert set(painted.trace.acceptance()) == {f"t+{step}" for step in range(1, depth + 1)}


@pytest.mark.parametrize(("rows", "cols", "row_end", "header"), [(4, 7, False, 1), (5, 3, True, 2)])
@pytest.mark.parametrize("options", SHAPES, ids=str)
def test_every_pair_stands_at_its_place_and_sees_its_own_past(rows, cols, row_end, header, options):
    backbone, drafter = CoordinateBackbone(rows, cols, row_end, header), CoordinateDrafter(cols)
    done = run(backbone, eagle(drafter, **options), temperature=0.0)
    assert done.tokens.tolist() == [list(range(rows * cols))]
    assert done.trace.forwards == forward_bounds(backbone.grid, "eagle", options)[0]
    assert (drafter.siblings > 0) == (options["children"] > 1 and options["depth"] > 1)


@pytest.mark.parametrize("row_end", [False, True])
def test_states_after_all_trees_are_the_teacher_forced_ones(row_end):
    backbone = tiny_backbone(5, 4, row_end=row_end)
    method = eagle(random_drafter(backbone.width), Witness, depth=3, children=4, nodes=12)
    painted = run(backbone, method)
    truth = backbone.states(backbone.encode([PROMPT]), painted.tokens)
    reached = method.session.cached
    assert reached >= backbone.grid.size - 1
    assert (method.session.states[:, :reached] - truth[:, :reached]).abs().max() < 1e-5
    assert backbone.length == reached
    stood, tried = (sum(column) for column in zip(*painted.trace.acceptance().values(), strict=True))
    assert 0 < stood < tried, "a path was kept, and one was dropped"


@torch.inference_mode()
def test_the_drafter_follows_the_final_tokens_with_their_true_states():
    """What it predicts in the last step is what it predicts of the whole image at once."""
    backbone, drafter = tiny_backbone(5, 4, row_end=True), random_drafter(32)
    method = eagle(drafter, Witness, depth=3, children=4, nodes=12)
    run(backbone, method)
    session, follower = method.session, method.session.memory["drafter"]
    session.committed = session.cached
    follower._followed = min(session.cached - 1, follower._followed)
    seen = follower.follow()[0]
    alone = drafter(*session.pairs(0, session.cached))
    assert torch.allclose(seen[:, 0], alone[:, -1], atol=1e-5)


def seedling(drafter):
    """A session on a table of laws whose first token is drawn, and from which nothing has grown yet."""
    method = eagle(drafter, Witness, depth=1, children=1, nodes=1)
    run(TableBackbone(2, 3, 3), method)
    session = method.session
    session.cached, session.committed, session.end = 0, 1, 1
    session.memory["drafter"] = Drafter(session, drafter)
    return session


def paths(tree, tokens):
    """Tokens from the root to each node."""
    found = {0: ()}
    for node, parent in enumerate(tree.parents[1:], 1):
        found[node] = (*found[parent], int(tokens[0, node]))
    return set(found.values()) - {()}


@torch.inference_mode()
@pytest.mark.parametrize("nodes", [3, 7, 12, 39])
def test_a_dynamic_tree_holds_the_likeliest_paths(nodes):
    """The twin: every path of up to three codes, its probability by the drafter run on it alone."""
    drafter = random_drafter(3, seed=4)
    session = seedling(drafter)
    states, embeddings = session.pairs(0, 1)
    likely = {}
    for path in itertools.chain(*(itertools.product(range(3), repeat=length) for length in (1, 2, 3))):
        given, read, probability = states, embeddings, 1.0
        for code in path:
            state = drafter(given, read)[:, -1:]
            probability *= float(session.backbone.head(state)[0, 0].softmax(-1)[code])
            given = torch.cat([given, state], 1)
            read = torch.cat([read, session.backbone.embed(torch.tensor([[code]]))], 1)
        likely[path] = probability
    best = sorted(likely, key=likely.get, reverse=True)[:nodes]
    # With 27 nodes of one depth going on, nothing is cut but by the count of nodes.
    tree, tokens = grow(session.memory["drafter"], EagleOptions(depth=3, children=27, nodes=nodes))
    assert paths(tree, tokens) == set(best)
    assert tree.depths == tuple(sorted(tree.depths))


@torch.inference_mode()
def test_few_nodes_of_a_depth_go_on():
    session = seedling(drafter := random_drafter(3, seed=4))
    tree, tokens = grow(session.memory["drafter"], EagleOptions(depth=4, children=2, nodes=100))
    assert tree.size == 1 + 2 + 3 * 2 * 2
    for depth in (1, 2, 3):
        parents = [tree.parents[node] for node in range(tree.size) if tree.depths[node] == depth + 1]
        assert len(set(parents)) == 2
        assert all(parents.count(parent) == 2 for parent in parents)
    first = drafter(*session.pairs(0, 1))
    assert tokens[0, 1:3].tolist() == session.backbone.head(first)[0, 0].topk(2).indices.tolist()


@torch.inference_mode()
def test_a_static_tree_looks_the_same_for_every_drafter():
    trees = []
    for seed in (1, 2):
        session = seedling(random_drafter(3, seed=seed))
        options = EagleOptions(depth=3, children=3, nodes=7, tree="static")
        trees.append(grow(session.memory["drafter"], options))
    assert trees[0][0] == trees[1][0]
    # 1/2, 1/4, 1/8 below the root, 1/4 and 1/8 below its first child, 1/8 below its second; 1/8 at depth 3.
    assert trees[0][0].parents == (-1, 0, 0, 0, 1, 1, 2, 4)
    assert not torch.equal(trees[0][1], trees[1][1])


def test_a_tree_ends_with_the_image():
    backbone = tiny_backbone(2, 3)
    method = eagle(random_drafter(backbone.width), Witness, depth=6, children=3, nodes=60)
    run(backbone, method)
    assert max(method.trees[0].depths) == 5
    assert all(max(tree.depths) <= 5 for tree in method.trees)


def test_one_forward_a_step_and_one_drafter_call_a_depth():
    backbone = tiny_backbone(6, 4)
    method = eagle(random_drafter(backbone.width), Witness, depth=3, children=2, nodes=5)
    trace = run(backbone, method).trace
    assert len(method.trees) == trace.forwards - 1 == len(trace.rounds)
    assert trace.fed == sum(tree.size for tree in method.trees)
    assert trace.fed <= 6 * len(method.trees)
    assert trace.head_calls <= 3 * len(method.trees)
    for round_ in trace.rounds:
        accepted = round_.accepted[0].tolist()
        assert accepted == sorted(accepted, reverse=True), "nothing is tried below what was rejected"
        assert torch.equal(round_.changed, ~round_.accepted)
        assert accepted.count(False) <= 1


STRICT = [
    {"name": "lantern", "neighbours": 0},
    {"name": "lantern", "bound": 0.0},
    {"name": "lantern_pp", "ratio": 1.0},
    {"name": "addition", "epsilon": 0.0},
]


@pytest.mark.parametrize("rule", STRICT, ids=str)
@pytest.mark.parametrize("tree", ["dynamic", "static"])
def test_without_relaxation_lantern_is_eagle_bit_for_bit(rule, tree):
    backbone = tiny_backbone(5, 4, row_end=True)
    drafter = random_drafter(backbone.width)
    for seed in range(3):
        strict, relaxed = (
            run(backbone, eagle(drafter, tree=tree, **options), seed=seed) for options in ({}, {"rule": rule})
        )
        assert torch.equal(strict.tokens, relaxed.tokens)
        assert strict.trace.forwards == relaxed.trace.forwards
        assert strict.trace.acceptance() == relaxed.trace.acceptance()
    assert eagle(drafter, rule=rule).lossless


def test_relaxation_accepts_more_and_is_lossy():
    backbone = tiny_backbone(6, 4)
    drafter = random_drafter(backbone.width)
    shape = {"depth": 3, "children": 2, "nodes": 4}
    rules = [{"name": "strict"}, {"name": "lantern", "bound": 0.9}, {"name": "lantern_pp", "ratio": 20.0}]
    methods = [eagle(drafter, **shape, rule=rule) for rule in rules]
    forwards = [sum(run(backbone, method, seed).trace.forwards for seed in range(3)) for method in methods]
    assert max(forwards[1:]) < forwards[0]
    assert [method.lossless for method in methods] == [True, False, False]


def test_several_images_at_a_time_are_refused():
    backbone = tiny_backbone()
    with pytest.raises(RowcastError, match="one image at a time for decoder eagle, found 2: set batch=1"):
        generate(backbone, ["a", "b"], eagle(random_drafter(32)), Noise(0, ["a", "b"], [0, 0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 0}, "decoder.depth: expected 1 to 256, found 0"),
        ({"nodes": 0}, "decoder.nodes: expected 1 to 4096, found 0"),
        ({"tree": "wide"}, "decoder.tree: expected one of dynamic, static, found 'wide'"),
        ({"rule": {"name": "nice"}}, "decoder.rule.name: expected one of strict, .*, found 'nice'"),
        ({"rule": {"name": "strict", "bound": 1}}, "unknown option decoder.rule.bound"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(RowcastError, match=message):
        eagle(random_drafter(8), **options)
