"""LlamaGen's trunk as transformers' LlamaModel: the same mathematics, under other names and in another order.

Two things differ from a language model. Positions are cells of the image grid, rotated in two dimensions
(the first half of a head by its row, the second by its column). And the condition is not rotated but
silenced: its queries and keys are zero vectors, so that all image tokens attend to it alike, and no order is
left among its slots (Sun et al., arXiv 2406.06525, and the published code).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaModel

from backbones.contract import Grid
from backbones.errors import RowcastError
from backbones.torch_file import own, require_matrices

HEAD_WIDTHS = {3200: 100, 4096: 128}
"""Of the 3B and the 7B model; in all others a head is 64 wide. No tensor's shape tells."""
ROTATION_BASE = 10_000.0
LAYERS = {
    "attention.wo": "self_attn.o_proj",
    "feed_forward.w1": "mlp.gate_proj",
    "feed_forward.w3": "mlp.up_proj",
    "feed_forward.w2": "mlp.down_proj",
    "attention_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
FUSED = "attention.wqkv"
OUTSIDE = ("tok_embeddings.weight", "norm.weight", "output.weight")
IGNORED = re.compile(r"freqs_cis|causal_mask|.*\.kv_cache\..*")
"""Buffers that are computed anew."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of a trunk."""

    layers: int
    heads: int
    width: int
    inner: int
    """Width inside the feed-forward layers."""
    codes: int

    @classmethod
    def published(cls, layers: int, heads: int, width: int, codes: int = 16_384) -> "Shape":
        """The feed-forward width follows from the width: eight thirds of it, rounded up to 256."""
        return cls(
            layers=layers, heads=heads, width=width, inner=-(-(8 * width // 3) // 256) * 256, codes=codes
        )

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], place: str) -> "Shape":
        """Read off the tensors of a checkpoint.

        Raises:
            RowcastError: if tensors are missing, foreign or of other shapes, or no LlamaGen model is as wide.
        """
        found_layers = (int(name.split(".")[1]) for name in tensors if re.match(r"layers\.\d+\.", name))
        layers = max(found_layers, default=0) + 1
        parts = (*LAYERS, FUSED)
        names = {*OUTSIDE, *(f"layers.{i}.{part}.weight" for i in range(layers) for part in parts)}
        _check_names(tensors, names, place)
        require_matrices(tensors, [name for name in names if "norm" not in name], place)
        codes, width = tensors["tok_embeddings.weight"].shape
        head = HEAD_WIDTHS.get(width, 64)
        if width % head:
            raise RowcastError(
                f"expected a width of whole heads of {head}, found {width} in {place}: "
                "pass a LlamaGen model of a published size (B, L, XL, XXL, 3B)"
            )
        inner = len(tensors["layers.0.feed_forward.w1.weight"])
        shape = cls(layers=layers, heads=width // head, width=width, inner=inner, codes=codes)
        for name in names:
            expected, found = shape.of_tensor(name), tuple(tensors[name].shape)
            if found != expected:
                raise RowcastError(
                    f"expected {expected} for {name}, found {found} in {place}: fetch it again"
                )
        return shape

    def of_tensor(self, name: str) -> tuple[int, ...]:
        """The shape of a published tensor of the trunk."""
        if "norm" in name:
            return (self.width,)
        if name in OUTSIDE:
            return self.codes, self.width
        part = name.split(".")[-2]
        rows = {"wqkv": 3 * self.width, "w1": self.inner, "w3": self.inner}.get(part, self.width)
        return rows, self.inner if part == "w2" else self.width


class GridRotation(nn.Module):
    """Rotary embedding by grid cell, in the place of LlamaModel's: position i is the i-th cell of the raster.

    Negative positions are the condition's: sine and cosine are zero there, which zeroes queries and keys.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, grid: Grid, head: int) -> None:
        super().__init__()
        quarter = torch.arange(0, head // 2, 2).float() / (head // 2)
        frequencies = 1.0 / ROTATION_BASE**quarter
        rows = torch.arange(grid.rows).repeat_interleave(grid.cols)
        cols = torch.arange(grid.cols).repeat(grid.rows)
        angles = torch.cat([rows[:, None] * frequencies, cols[:, None] * frequencies], -1)
        silent = angles.new_zeros(1, head)
        # A head's two halves are rotated against each other, so both have the same angles.
        self.register_buffer("cos", torch.cat([silent, angles.cos().repeat(1, 2)]), persistent=False)
        self.register_buffer("sin", torch.cat([silent, angles.sin().repeat(1, 2)]), persistent=False)

    def forward(
        self, x: Float[Tensor, "B W D"], position_ids: Int[Tensor, "P W"]
    ) -> tuple[Float[Tensor, "P W h"], Float[Tensor, "P W h"]]:
        row = (position_ids + 1).clamp_min(0)
        return self.cos[row].to(x.dtype), self.sin[row].to(x.dtype)


@dataclass(frozen=True, kw_only=True)
class Generator:
    """The trunk with what stands around it."""

    trunk: LlamaModel
    """Its input table holds what conditions are fed as."""
    table: nn.Embedding
    """What image codes are fed as."""
    output: nn.Linear


def build_generator(
    shape: Shape, grid: Grid, *, conditions: int, longest: int, dtype: torch.dtype
) -> Generator:
    """A generator with random weights, on the default device.

    Args:
        shape: its sizes.
        grid: token grid of an image.
        conditions: rows of the table of conditions.
        longest: slots that a condition may take.
        dtype: of the weights.
    """
    config = LlamaConfig(
        vocab_size=conditions,
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=shape.width // shape.heads,
        max_position_embeddings=longest + grid.size,
        rms_norm_eps=1e-5,
        bos_token_id=None,
        eos_token_id=None,
    )
    trunk = LlamaModel._from_config(config, dtype=dtype)
    _rotate_by_cell(trunk, grid)
    return Generator(
        trunk=trunk,
        table=nn.Embedding(shape.codes, shape.width, dtype=dtype),
        output=nn.Linear(shape.width, shape.codes, bias=False, dtype=dtype),
    )


def load_generator(
    tensors: Mapping[str, Tensor],
    conditions: Float[Tensor, "C D"],
    shape: Shape,
    grid: Grid,
    *,
    longest: int,
    dtype: torch.dtype,
) -> Generator:
    """The generator of a checkpoint, on the CPU.

    Args:
        tensors: the checkpoint's, by their published names; `Shape.of` has checked them.
        conditions: what the trunk is fed for each condition id.
        shape: its sizes.
        grid: token grid of an image.
        longest: slots that a condition may take.
        dtype: of the weights.
    """
    with torch.device("meta"):
        empty = build_generator(shape, grid, conditions=len(conditions), longest=longest, dtype=dtype)
    state = {"embed_tokens.weight": conditions, **dict(_llama_tensors(tensors, shape))}
    empty.trunk.load_state_dict({name: own(tensor, dtype) for name, tensor in state.items()}, assign=True)
    _rotate_by_cell(empty.trunk, grid)
    for module, name in ((empty.table, "tok_embeddings"), (empty.output, "output")):
        module.load_state_dict({"weight": own(tensors[f"{name}.weight"], dtype)}, assign=True)
    return empty


def halves(weight: Float[Tensor, "K D"], heads: int) -> Float[Tensor, "K D"]:
    """Rows of a query or key projection, from rotated pairs (0, 1), (2, 3) ... to (0, h/2), (1, h/2 + 1) ...

    Both projections are reordered alike, so every product of a query and a key stays what it was.
    """
    return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def _rotate_by_cell(trunk: LlamaModel, grid: Grid) -> None:
    rotation = GridRotation(grid, trunk.config.hidden_size // trunk.config.num_attention_heads)
    trunk.rotary_emb = rotation  # pyright: ignore[reportAttributeAccessIssue]


def _llama_tensors(tensors: Mapping[str, Tensor], shape: Shape) -> Iterator[tuple[str, Tensor]]:
    """The layers and the final norm under transformers' names."""
    yield "norm.weight", tensors["norm.weight"]
    for layer in range(shape.layers):
        query, key, value = tensors[f"layers.{layer}.{FUSED}.weight"].chunk(3)
        yield f"layers.{layer}.self_attn.q_proj.weight", halves(query, shape.heads)
        yield f"layers.{layer}.self_attn.k_proj.weight", halves(key, shape.heads)
        yield f"layers.{layer}.self_attn.v_proj.weight", value
        for theirs, ours in LAYERS.items():
            yield f"layers.{layer}.{ours}.weight", tensors[f"layers.{layer}.{theirs}.weight"]


def _check_names(tensors: Mapping[str, Tensor], expected: set[str], place: str) -> None:
    missing = sorted(expected - set(tensors))
    if missing:
        raise RowcastError(
            f"expected the weights of a LlamaGen model, found no {missing[0]} in {place}: "
            "fetch it again, or pass another model.path"
        )
    known = {name for name in tensors if name.startswith("cls_embedding.") or IGNORED.fullmatch(name)}
    foreign = sorted(set(tensors) - expected - known)
    if foreign:
        raise RowcastError(
            f"expected the weights of a LlamaGen model alone, found {foreign[0]} in {place}: "
            "another architecture can't be loaded as LlamaGen"
        )
