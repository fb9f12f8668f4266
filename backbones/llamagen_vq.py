"""LlamaGen's image tokenizer as transformers' JanusVQVAE: Janus took it over, so four renames are enough."""

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor
from transformers.models.janus.configuration_janus import JanusVQVAEConfig
from transformers.models.janus.modeling_janus import JanusVQVAE

from backbones.contract import Grid
from backbones.errors import RowcastError
from backbones.torch_file import own, read_tensors

OPTION = "model.pixels"
CELL = 16
"""Pixels along the side of one token. The 8-pixel tokenizer has no published generator."""
RENAMES = (
    (r"^decoder\.conv_blocks\.", "decoder.up."),
    (r"^encoder\.conv_blocks\.", "encoder.down."),
    (r"\.res\.", ".block."),
    (r"\.mid\.([012])\.", lambda match: f".mid.{('block_1', 'attn_1', 'block_2')[int(match[1])]}."),
)
USAGE = "quantize.codebook_used"
"""Which codes training used of late; decoding needs no such thing."""


def published_vq(grid: Grid) -> JanusVQVAE:
    """The published tokenizer's shape with random weights, on the default device."""
    return JanusVQVAE(JanusVQVAEConfig(num_patches=grid.rows))


def read_vq(path: Path, grid: Grid, codes: int) -> JanusVQVAE:
    """Reads a tokenizer's weights onto the CPU, in fp32; its shape is read off them.

    Args:
        path: of the file.
        grid: token grid of an image, a square one.
        codes: that the generator draws.

    Raises:
        RowcastError: if the file is broken or of another kind, or made for other tokens.
    """
    tensors = janus_names(read_tensors(path, OPTION))
    try:
        config = _config(tensors, grid)
        with torch.device("meta"):
            vq = JanusVQVAE(config)
        kinds = {str(tensor.dtype) for tensor in tensors.values() if not tensor.is_floating_point()}
        if kinds:
            raise ValueError(f"numbers of type {', '.join(sorted(kinds))}")
        vq.load_state_dict(
            {name: own(tensor, torch.float32) for name, tensor in tensors.items()}, assign=True
        )
    except (KeyError, ValueError, TypeError, ZeroDivisionError, RuntimeError) as error:
        raise RowcastError(
            f"expected the weights of a LlamaGen VQ, found {_difference(error)} in {path}: "
            f"pass {OPTION}=FoundationVision/LlamaGen/vq_ds16_c2i.pt or its like"
        ) from error
    held, side = config.num_embeddings, 2 ** (_levels(tensors) - 1)
    if (held, side) != (codes, CELL):
        raise RowcastError(
            f"expected a VQ of {codes} codes and {CELL} pixels a token, found {held} codes and {side} pixels "
            f"in {path}: pass the vq_ds16 file that was published with the generator as {OPTION}"
        )
    return vq


def janus_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """LlamaGen's tensors by the names that JanusVQVAE has for them."""
    renamed = {}
    for name, tensor in tensors.items():
        if name != USAGE:
            for pattern, replacement in RENAMES:
                name = re.sub(pattern, replacement, name)  # noqa: PLW2901
            renamed[name] = tensor
    return renamed


def _config(tensors: Mapping[str, Tensor], grid: Grid) -> JanusVQVAEConfig:
    """The configuration that the tensors fit into; whether all of them do shows when they are loaded."""
    base = len(tensors["encoder.conv_in.weight"])
    widths = [len(tensors[f"encoder.down.{level}.block.0.conv1.weight"]) for level in range(_levels(tensors))]
    codes, depth = tensors["quantize.embedding.weight"].shape
    return JanusVQVAEConfig(
        embed_dim=depth,
        num_embeddings=codes,
        latent_channels=len(tensors["post_quant_conv.weight"]),
        base_channels=base,
        channel_multiplier=[width // base for width in widths],
        num_res_blocks=sum(
            bool(re.fullmatch(r"encoder\.down\.0\.block\.\d+\.conv1\.weight", name)) for name in tensors
        ),
        num_patches=grid.rows,
    )


def _levels(tensors: Mapping[str, Tensor]) -> int:
    """Resolutions that the tokenizer goes through; each but the first halves the side."""
    return len({name.split(".")[2] for name in tensors if name.startswith("encoder.down.")})


def _difference(error: Exception) -> str:
    """What a look-up or `load_state_dict` complains of, in one line."""
    if isinstance(error, KeyError):
        return f"no {error.args[0]}"
    return str(error).strip().splitlines()[-1].strip()
