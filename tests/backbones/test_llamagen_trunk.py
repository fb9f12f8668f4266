"""LlamaGen's trunk in transformers' clothes: sizes, rotations and the order of rows."""

import pytest
import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from backbones.contract import Grid
from backbones.errors import RowcastError
from backbones.llamagen import SHAPES
from backbones.llamagen_trunk import GridRotation, Shape, build_generator, halves
from tests.backbones.checkpoints.llamagen import INNER, class_tensors
from tests.backbones.llamagen_reference import Reference, rotated

pytestmark = pytest.mark.unit

GRID = Grid(rows=6, cols=6)


def test_shape_is_read_off_the_tensors():
    shape = Shape.of(class_tensors(width=192, layers=3), "here")
    assert shape == Shape(layers=3, heads=3, width=192, inner=INNER, codes=48)


@pytest.mark.parametrize(("width", "heads"), [(768, 12), (1280, 20), (1536, 24), (3200, 32), (4096, 32)])
def test_heads_follow_from_the_width(width, heads):
    with torch.device("meta"):
        tensors = {name: torch.empty(shape) for name, shape in shapes(width).items()}
    assert Shape.of(tensors, "here").heads == heads


def shapes(width: int) -> dict[str, tuple[int, ...]]:
    tiny = class_tensors(width=128, layers=1)
    return {name: tuple({128: width, 384: 3 * width}.get(n, n) for n in t.shape) for name, t in tiny.items()}


@pytest.mark.parametrize(
    ("size", "millions"), [("B", 111), ("L", 343), ("XL", 775), ("XXL", 1411), ("3B", 3097)]
)
def test_published_sizes(size, millions):
    """Parameters as the published table has them, the class table included."""
    with torch.device("meta"):
        generator = build_generator(SHAPES[size], GRID, conditions=1001, longest=1, dtype=torch.bfloat16)
    parts = (generator.trunk, generator.table, generator.output)
    assert round(sum(p.numel() for part in parts for p in part.parameters()) / 1e6) == millions
    assert all(p.dtype == torch.bfloat16 for part in parts for p in part.parameters())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers.1.attention.wo.weight": None}, r"found no layers\.1\.attention\.wo\.weight in here"),
        ({"layers.0.attention_norm.weight": None}, r"found no layers\.0\.attention_norm\.weight"),
        ({"output.weight": None}, r"found no output\.weight"),
        ({"layers.3.ffn_norm.weight": torch.ones(128)}, r"found no layers\.2\."),
        ({"layers.0.attention.q_norm.weight": torch.ones(64)}, r"found layers\.0\.attention\.q_norm\.weight"),
        (
            {"layers.1.attention.wqkv.weight": torch.ones(256, 128)},
            r"\(384, 128\) for .*wqkv.*, found \(256, 128\)",
        ),
        ({"norm.weight": torch.ones(64)}, r"\(128,\) for norm\.weight, found \(64,\)"),
        ({"output.weight": torch.ones(47, 128)}, r"\(48, 128\) for output\.weight, found \(47, 128\)"),
        ({"tok_embeddings.weight": torch.ones(48, 100)}, r"whole heads of 64, found 100"),
    ],
)
def test_missing_and_foreign_tensors_are_named(change, message):
    tensors = {name: tensor for name, tensor in (class_tensors() | change).items() if tensor is not None}
    with pytest.raises(RowcastError, match=message):
        Shape.of(tensors, "here")


def test_stored_buffers_are_ignored():
    buffers = {"freqs_cis": torch.ones(3), "layers.0.attention.kv_cache.k_cache": torch.ones(2)}
    assert Shape.of(class_tensors() | buffers, "here") == Shape.of(class_tensors(), "here")


@pytest.mark.parametrize("head", [64, 100])
def test_reordered_halves_score_like_rotated_pairs(head):
    """Every product of a query and a key, at every pair of cells, in both conventions."""
    torch.manual_seed(0)
    query, key = (torch.randn(2 * head, 24) for _ in range(2))
    x = torch.randn(GRID.size, 24)
    turn = Reference({"norm.weight": torch.ones(2 * head)}, heads=2, side=6).turns(0, GRID.size)
    ours = GridRotation(GRID, head)(x[None], torch.arange(GRID.size)[None])
    pairs = [rotated((x @ w.T).unflatten(1, (2, head)), turn) for w in (query, key)]
    expected = torch.einsum("ihd,jhd->hij", *pairs)
    ordered = [(x @ halves(w, 2).T).unflatten(1, (2, head)).transpose(0, 1)[None] for w in (query, key)]
    q, k = apply_rotary_pos_emb(*ordered, *ours)
    assert torch.allclose((q @ k.mT)[0], expected, rtol=1e-4, atol=1e-3)
    q, k = apply_rotary_pos_emb(
        *[(x @ w.T).unflatten(1, (2, head)).transpose(0, 1)[None] for w in (query, key)], *ours
    )
    assert not torch.allclose((q @ k.mT)[0], expected, rtol=0.1, atol=1)


def test_positions_before_the_image_are_silent():
    cos, sin = GridRotation(GRID, 64)(torch.ones(1, 4, 8), torch.tensor([[-120, -1, 0, 35]]))
    assert cos.shape == (1, 4, 64)
    assert not cos[0, :2].any()
    assert not sin[0, :2].any()
    assert (cos[0, 2] == 1).all()
    assert torch.allclose(
        cos.square() + sin.square(), torch.tensor([0.0, 0, 1, 1])[None, :, None].expand(1, 4, 64)
    )
    assert cos[0, 3, 0] == torch.tensor(5.0).cos()
