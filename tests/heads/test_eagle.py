"""EAGLE's drafter: what it reads and predicts, alone, in blocks and in trees, and what it is trained by."""

import pytest
import torch

from backbones.contract import Grid
from backbones.errors import RowcastError
from heads.eagle import EagleDrafter
from heads.kinds import KINDS, build_heads
from heads.options import HEADS, EagleHeads, parse_heads
from tests.heads.lessons import lesson
from tests.heads.test_bank import shaken

pytestmark = pytest.mark.unit

GRID = Grid(rows=3, cols=4)
IMAGES, WIDTH, CODES = 3, 8, 7


def random_case(**options):
    generator = torch.Generator().manual_seed(0)
    states, embeddings = torch.randn(2, IMAGES, GRID.size, WIDTH, generator=generator).unbind()
    return shaken(EagleDrafter(WIDTH, attention_heads=2, **options)), states, embeddings


def output(seed=5):
    weight = torch.randn(CODES, WIDTH, generator=torch.Generator().manual_seed(seed))
    return lambda hidden: hidden.float() @ weight.T


def close(a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_an_untrained_drafter_copies_its_states_bit_for_bit():
    states, embeddings = random_case()[1:]
    assert torch.equal(EagleDrafter(WIDTH)(100 * states, embeddings), 100 * states)


@torch.no_grad()
def test_a_prediction_depends_on_its_own_pair_and_those_before_it():
    drafter, states, embeddings = random_case()
    base = drafter(states, embeddings)
    for changed in (states, embeddings):
        changed[:, 5] += 1
        other = drafter(states, embeddings)
        changed[:, 5] -= 1
        assert close(other[:, :5], base[:, :5])
        assert all(not close(other[:, place], base[:, place]) for place in range(5, GRID.size))


@torch.no_grad()
def test_places_matter():
    """Distances between places alone do; the order of the same pairs is seen."""
    drafter, states, embeddings = random_case()
    base = drafter(states, embeddings)
    assert close(drafter(states, embeddings, torch.arange(GRID.size) + 40), base)
    assert not close(drafter(states, embeddings, 2 * torch.arange(GRID.size)), base)


@torch.no_grad()
def test_blocks_and_trees_over_a_cache_are_what_sequences_are_alone():
    """Four pairs, then two branches of two, interleaved; rolled back, the first branch as a block."""
    drafter, states, embeddings = random_case()
    left, right = (states[0], embeddings[0]), (states[1].clone(), embeddings[1].clone())
    for part, common in zip(right, left, strict=True):
        part[:4] = common[:4]
    alone = [drafter(*(part[None, :6] for part in branch))[0] for branch in (left, right)]
    cache = drafter.new_cache(4)
    tree = [torch.stack([a[4:6], b[4:6]], 1).flatten(0, 1)[None] for a, b in zip(left, right, strict=True)]
    first = drafter(*(part[None, :4] for part in left), cache=cache)
    sees = torch.zeros(4, 8, dtype=torch.bool)
    sees[:, :4] = True
    sees[[0, 1, 2, 2, 3, 3], [4, 5, 4, 6, 5, 7]] = True
    drafted = drafter(*tree, torch.tensor([4, 4, 5, 5]), sees, cache)[0]
    assert close(first[0], alone[0][:4])
    assert close(drafted[0::2], alone[0][4:])
    assert close(drafted[1::2], alone[1][4:])
    cache.keep(4)
    causal = torch.ones(2, 6, dtype=torch.bool).tril(4)
    assert close(
        drafter(*(part[None, 4:6] for part in left), torch.arange(4, 6), causal, cache)[0], alone[0][4:]
    )


def test_losses_equal_brute_force():
    drafter, states, embeddings = random_case(law_weight=0.3)
    losses = drafter.losses(lesson(states, embeddings, GRID, head=output()))
    predicted = drafter(states, embeddings)
    gaps, entropies = [], []
    for image in range(IMAGES):
        for place in range(GRID.size - 1):
            mine, true = predicted[image, place], states[image, place + 1]
            gap = (mine - true).abs()
            gaps.append(torch.where(gap < 1, gap.square() / 2, gap - 0.5).mean())
            law, log = output()(true).softmax(-1), output()(mine).softmax(-1).log()
            entropies.append(-(law * log).sum())
    torch.testing.assert_close(losses["state"], torch.stack(gaps).mean())
    torch.testing.assert_close(losses["law"], torch.stack(entropies).mean())
    torch.testing.assert_close(drafter.objective(losses), losses["state"] + 0.3 * losses["law"])


def test_without_a_weight_there_is_no_law_to_learn():
    drafter, states, embeddings = random_case(law_weight=0.0)

    def refuse(hidden):
        raise AssertionError("the output layer was asked in vain")

    losses = drafter.losses(lesson(states, embeddings, GRID, head=refuse))
    assert list(losses) == ["state"]
    assert drafter.objective(losses) is losses["state"]


def gradients(chunk, label):
    drafter, states, embeddings = random_case()
    losses = drafter.losses(lesson(states, embeddings, GRID, chunk, output()))
    losses[label].backward()
    return losses[label], [weight.grad for weight in drafter.parameters()]


@pytest.mark.parametrize("label", ["state", "law"])
@pytest.mark.parametrize("chunk", [1, 13, 24])
def test_chunks_change_neither_loss_nor_gradient(chunk, label):
    torch.testing.assert_close(gradients(chunk, label), gradients(10_000, label), rtol=1e-4, atol=1e-5)


def test_every_weight_learns_and_laws_are_asked_in_pieces():
    sizes = []

    def head(hidden):
        sizes.append(len(hidden))
        return output()(hidden)

    drafter, states, embeddings = random_case()
    losses = drafter.losses(lesson(states, embeddings, GRID, 7, head))
    drafter.objective(losses).backward()
    assert all(weight.grad.abs().sum() > 0 for weight in drafter.parameters())
    assert max(sizes) == 7 * WIDTH // CODES


def test_noise_is_off_by_default_and_repeats_with_its_generator():
    def losses(**options):
        drafter, states, embeddings = random_case(law_weight=0.0, **options)
        given = [lesson(states, embeddings, GRID, seed=seed) for seed in (0, 0, 1)]
        return [drafter.losses(one)["state"].item() for one in given]

    plain, noisy = losses(), losses(noise=0.2)
    assert plain[0] == plain[1] == plain[2]
    assert noisy[0] == noisy[1] != noisy[2]
    assert noisy[0] != plain[0]


def test_noise_has_the_width_that_its_option_says():
    drafter, states, embeddings = random_case(noise=0.3)
    added = drafter._noisy(lesson(states, embeddings, GRID)) - states
    half = 0.3 * 512 / GRID.size / 2
    assert 0.9 * half < added.abs().max() <= half
    assert added.mean().abs() < 0.1 * half


def learnt(attends):
    """The last loss as a part of the first, on images that are one vector and noise."""
    torch.manual_seed(0)
    drafter = EagleDrafter(8, law_weight=0.0)
    drafter.layer.self_attn.o_proj.requires_grad_(attends)
    optimiser = torch.optim.Adam([weight for weight in drafter.parameters() if weight.requires_grad], lr=0.02)
    history = []
    for _ in range(60):
        states = 2 * torch.randn(16, 1, 8) + torch.randn(16, 24, 8)
        loss = drafter.losses(lesson(states, torch.zeros_like(states), Grid(rows=4, cols=6)))["state"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        history.append(loss.item())
    return history[-1] / history[0]


def test_a_drafter_learns_from_all_of_the_past():
    """The mean of all states is nearer to the next one than the last state alone can tell."""
    assert learnt(attends=True) < 0.85 < 0.9 < learnt(attends=False)


@torch.no_grad()
def test_a_low_precision_drafter_takes_any_input_and_is_judged_in_fp32():
    drafter, states, embeddings = random_case()
    drafter = drafter.bfloat16()
    assert drafter(states, embeddings).dtype == torch.bfloat16
    losses = drafter.losses(lesson(states.bfloat16(), embeddings.bfloat16(), GRID, head=output()))
    assert {loss.dtype for loss in losses.values()} == {torch.float32}


@torch.no_grad()
def test_weights_are_all_there_is():
    """Made without memory and filled afterwards, as a bundle is loaded, it computes the same."""
    drafter, states, embeddings = random_case()
    with torch.device("meta"):
        other = build_heads("eagle", WIDTH, drafter.options)
    other = other.to_empty(device="cpu")
    other.load_state_dict(drafter.state_dict())
    assert torch.equal(other(states, embeddings), drafter(states, embeddings))
    assert not list(drafter.buffers())


@pytest.mark.parametrize(("width", "heads"), [(192, 3), (4096, 64), (32, 1), (3, 1)])
def test_attention_is_sized_to_the_width(width, heads):
    with torch.device("meta"):
        drafter = EagleDrafter(width)
    assert drafter.facts["attention_heads"] == heads
    assert drafter.labels == ("t+1",)
    parts = sum(weight.numel() for part in drafter.parts().values() for weight in part.parameters())
    assert parts == sum(weight.numel() for weight in drafter.parameters())


@pytest.mark.parametrize(
    "options", [{"attention_heads": 9}, {"hidden": 0.01}, {"hidden": float("nan")}], ids=str
)
def test_impossible_drafters_are_refused(options):
    with pytest.raises(RowcastError, match="attention heads and a layer of at least one unit"):
        EagleDrafter(WIDTH, **options)


def test_an_image_of_one_token_teaches_nothing():
    with pytest.raises(RowcastError, match="at least two tokens to train a drafter on, found 1"):
        EagleDrafter(WIDTH).check_targets(Grid(rows=1, cols=1))


def test_kinds_and_options_have_the_same_names():
    assert KINDS.keys() == HEADS.keys()
    for name in HEADS:
        kind, options = parse_heads({"name": name})
        assert build_heads(kind, 16, options).kind == name


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"option heads.name: expected one of ssd, mtp, eagle, found None: set heads=ssd"),
        ({"name": "medusa"}, "found 'medusa'"),
        ({"name": "mtp", "vertical": 1}, "unknown option heads.vertical: did you mean heads"),
        ({"name": "eagle", "law_weight": -1.0}, "heads.law_weight: expected 0 to 1000, found -1.0"),
        ({"name": "eagle", "attention_heads": 0}, "heads.attention_heads: expected 1 to 1024, found 0"),
    ],
)
def test_wrong_options_are_named(values, message):
    with pytest.raises(RowcastError, match=message):
        parse_heads(values)


def test_parsed_options_are_typed():
    assert parse_heads({"name": "eagle", "hidden": 2})[1] == EagleHeads(hidden=2.0)
