"""The loss is zero on an oracle alone, blind to what is masked, and the same in any chunk."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from backbones.contract import Grid
from backbones.errors import RowcastError
from heads.bank import HeadBank, MTPBank
from heads.loss import check_targets, head_losses
from heads.offsets import Offset, pairs
from tests.heads.lessons import lesson
from tests.heads.test_bank import shaken

pytestmark = pytest.mark.unit

GRID = Grid(rows=5, cols=7)
IMAGES = 2


def coordinates(grid, images=IMAGES):
    """[y, x, 1] of every position: what a state emits, or what a token is."""
    cells = torch.cartesian_prod(torch.arange(grid.rows), torch.arange(grid.cols)).float()
    return torch.cat([cells, torch.ones(grid.size, 1)], dim=1).expand(images, -1, -1)


def oracle(read_embedding):
    """Heads that add their own offset to the coordinates of the state, or of the token, that they read."""
    bank = HeadBank(3, horizontal=5, vertical=2)
    first = 3 if read_embedding else 0
    with torch.no_grad():
        for offset in bank.offsets:
            weight = bank.predictors[offset.label].mix.weight.zero_()
            weight[:, first : first + 3] = torch.eye(3)
            weight[0, first + 2], weight[1, first + 2] = offset.down, offset.right
    return bank


@pytest.mark.parametrize("read_embedding", [False, True])
@pytest.mark.parametrize("grid", [GRID, Grid(rows=3, cols=6), Grid(rows=6, cols=9)], ids=str)
def test_oracle_has_no_loss(grid, read_embedding):
    """Proves the pairing: state and embedding of one cell, target exactly the offset away, never wrapped."""
    given = coordinates(grid)
    losses = head_losses(oracle(read_embedding), lesson(given, given, grid))
    assert len(losses) == 7
    assert all(loss.item() == 0.0 for loss in losses.values())


def test_tokens_shifted_by_one_have_a_loss():
    given = coordinates(GRID)
    losses = head_losses(oracle(read_embedding=True), lesson(given, given.roll(1, dims=1), GRID))
    assert all(loss.item() > 0.1 for loss in losses.values())


def test_rows_one_longer_have_a_loss():
    """The grid of a sequence that still holds its row ends is not the token grid."""
    longer = Grid(rows=GRID.rows, cols=GRID.cols + 1)
    given = coordinates(longer)[:, : GRID.size]
    losses = head_losses(oracle(read_embedding=False), lesson(given, given, GRID))
    assert all(loss.item() > 0.1 for loss in losses.values())


def random_case(columns=1):
    generator = torch.Generator().manual_seed(0)
    states, embeddings = torch.randn(2, IMAGES, GRID.size, 6, generator=generator).unbind()
    return shaken(HeadBank(6, horizontal=5, vertical=2, columns=columns)), states, embeddings


def read(vectors, y, x, columns):
    """What a head reads of the cell (y, x) of an image: it, its left and its right neighbour."""
    cells = [vectors[y * GRID.cols + x]]
    for other in (x - 1, x + 1)[: columns - 1]:
        inside = 0 <= other < GRID.cols
        cells.append(vectors[y * GRID.cols + other] if inside else torch.zeros(6))
    return torch.cat(cells)


@pytest.mark.parametrize("columns", [1, 3])
def test_losses_equal_brute_force(columns):
    bank, states, embeddings = random_case(columns)
    losses = head_losses(bank, lesson(states, embeddings, GRID), laws=True)
    assert list(losses) == [name for label in bank.labels for name in (label, f"{label} law")]
    for offset in bank.offsets:
        terms, laws = [], []
        for image in range(IMAGES):
            for y in range(GRID.rows - offset.down):
                for x in range(GRID.cols - offset.right):
                    width = columns if offset.down else 1
                    pair = (read(vectors[image], y, x, width) for vectors in (states, embeddings))
                    predicted = bank(offset, *pair)
                    true = states[image, (y + offset.down) * GRID.cols + x + offset.right]
                    gap = (predicted - true).abs()
                    terms.append(torch.where(gap < 1, gap.square() / 2, gap - 0.5).mean())
                    laws.append(-(true.softmax(0) * predicted.log_softmax(0)).sum())
        torch.testing.assert_close(losses[offset.label], torch.stack(terms).mean())
        torch.testing.assert_close(losses[f"{offset.label} law"], torch.stack(laws).mean())


def test_the_law_term_is_added_by_its_weight():
    bank, states, embeddings = random_case()
    weighted = HeadBank(6, horizontal=5, vertical=2, draft_law_weight=0.25)
    weighted.load_state_dict(bank.state_dict())
    given = lesson(states, embeddings, GRID)
    losses = head_losses(bank, given, laws=True)
    mean = [sum(losses[label + part] for label in bank.labels) / 7 for part in ("", " law")]
    torch.testing.assert_close(weighted.objective(weighted.losses(given)), mean[0] + 0.25 * mean[1])
    torch.testing.assert_close(bank.objective(bank.losses(given)), mean[0])


def gradients(chunk):
    bank, states, embeddings = random_case(columns=3)
    losses = head_losses(bank, lesson(states, embeddings, GRID, chunk), laws=True)
    torch.stack(list(losses.values())).mean().backward()
    return losses, [weight.grad for weight in bank.parameters()]


@pytest.mark.parametrize("chunk", [5, 64])
def test_chunks_change_neither_loss_nor_gradient(chunk):
    torch.testing.assert_close(gradients(chunk), gradients(10_000), rtol=1e-5, atol=1e-6)


def kept_for_backward(chunk):
    """Numbers of activations that autograd keeps between the forward and the backward pass."""
    bank, states, embeddings = random_case()
    inputs = {tensor.data_ptr() for tensor in (states, embeddings, *bank.parameters())}
    kept = []

    def pack(tensor):
        if tensor.is_floating_point() and tensor.data_ptr() not in inputs:
            kept.append(tensor.numel())
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        head_losses(bank, lesson(states, embeddings, GRID, chunk))
    return sum(kept)


def test_memory_is_bounded_by_the_chunk():
    everything = kept_for_backward(10_000)
    assert everything > 100 * 6 * IMAGES
    assert kept_for_backward(8) < everything / 100


def test_no_call_exceeds_the_chunk():
    bank, states, embeddings = random_case()
    seen = []
    for predictor in bank.predictors.values():
        predictor.register_forward_hook(lambda _, given, __: seen.append(len(given[0])))
    head_losses(bank, lesson(states, embeddings, GRID, 9))
    assert max(seen) == 9
    assert sum(seen) == sum(IMAGES * len(pairs(GRID, offset)[0]) for offset in bank.offsets)


@pytest.mark.parametrize("chunk", [4, 10_000])
def test_masked_positions_have_no_gradient(chunk):
    bank, states, embeddings = random_case()
    embeddings.requires_grad_()
    losses = head_losses(bank, lesson(states, embeddings, GRID, chunk))
    for offset, loss in zip(bank.offsets, losses.values(), strict=True):
        (gradient,) = torch.autograd.grad(loss, embeddings)
        touched = gradient.abs().sum(dim=-1) > 0
        expected = torch.zeros(GRID.size, dtype=torch.bool)
        expected[pairs(GRID, offset)[0]] = True
        assert torch.equal(touched, expected.expand(IMAGES, -1))


def test_heads_learn_what_copying_cannot_do():
    """Coordinates are learnable for every head, and an untrained one is wrong by exactly its offset."""
    bank, given = HeadBank(3, horizontal=2, vertical=1), coordinates(GRID)
    optimizer = torch.optim.Adam(bank.parameters(), lr=0.02)
    history = []
    for _ in range(60):
        loss = torch.stack(list(head_losses(bank, lesson(given, given, GRID)).values())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    assert history[0] == pytest.approx((0.5 + 1.5 + 0.5) / 3 / 3)
    assert history[-1] < 0.1 * history[0]


def test_a_low_precision_bank_is_judged_in_fp32():
    bank, states, embeddings = random_case()
    losses = head_losses(bank.bfloat16(), lesson(states.bfloat16(), embeddings.bfloat16(), GRID))
    assert {loss.dtype for loss in losses.values()} == {torch.float32}


@pytest.mark.parametrize(
    ("rows", "cols", "message"),
    [
        (5, 3, r"draft head h\+3, found none .* lower heads.horizontal"),
        (1, 9, r"v\+1, .* lower heads.vertical"),
    ],
)
def test_a_head_without_targets_is_an_error(rows, cols, message):
    grid = Grid(rows=rows, cols=cols)
    bank, given = HeadBank(4, horizontal=5, vertical=1), torch.zeros(1, grid.size, 4)
    with pytest.raises(RowcastError, match=message):
        head_losses(bank, lesson(given, given, grid, 8))


def test_heads_that_fit_are_accepted():
    check_targets((Offset(0, 4), Offset(1, 0)), Grid(rows=2, cols=5))


@pytest.mark.parametrize(("images", "positions", "chunk"), [(0, 35, 8), (1, 34, 8), (1, 35, 0)])
def test_partial_images_and_empty_chunks_are_errors(images, positions, chunk):
    given = torch.zeros(images, positions, 4)
    with pytest.raises(RowcastError, match="expected whole images of 35 states"):
        head_losses(HeadBank(4), lesson(given, given, GRID, chunk))


def test_a_bank_along_the_raster_goes_on_past_the_ends_of_rows():
    """The pair of the last cell of a row is the first of the next, one token on."""
    states, embeddings = random_case()[1:]
    bank = shaken(MTPBank(6, ahead=3))
    for steps, (label, loss) in enumerate(bank.losses(lesson(states, embeddings, GRID)).items(), 1):
        predicted = bank.predictors[label](states[:, :-steps], embeddings[:, :-steps])
        gap = (predicted - states[:, steps:]).abs()
        torch.testing.assert_close(loss, torch.where(gap < 1, gap.square() / 2, gap - 0.5).mean())
        assert label == f"t+{steps}"


def test_the_objective_of_a_bank_is_the_mean_over_its_heads():
    bank, states, embeddings = random_case()
    losses = bank.losses(lesson(states, embeddings, GRID))
    assert list(losses) == list(bank.labels)
    torch.testing.assert_close(bank.objective(losses), sum(losses.values()) / 7)


def test_a_bank_along_the_raster_needs_an_image_longer_than_it_reaches():
    MTPBank(4, ahead=5).check_targets(Grid(rows=3, cols=2))
    with pytest.raises(RowcastError, match=r"draft head t\+5, found none .* lower heads.ahead"):
        MTPBank(4, ahead=5).check_targets(Grid(rows=5, cols=1))
