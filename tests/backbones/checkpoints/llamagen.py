"""Tiny random LlamaGen models in the layout of `FoundationVision/LlamaGen` and `peizesun/llamagen_t2i`."""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from tests.backbones.checkpoints.t5 import FEATURES, write_t5

CODES, LAYERS, WIDTH, INNER, CLASSES, LONGEST = 48, 2, 128, 96, 10, 120
DEPTH, LATENT, CHANNELS, LEVELS = 8, 32, 32, 5
SMALL = 0.05
"""Standard deviation of what is fed: as in the real models, so small that the norms' epsilon matters."""
LAYOUTS = ("model", "module", "state_dict", "bare")


def write_llamagen_c2i(folder: Path, layout: str = "model", name: str = "c2i_B_256.pt") -> dict[str, Any]:
    """Writes generator and VQ; what `load_backbone("llamagen_c2i", ...)` takes."""
    save(class_tensors(), folder / name, layout)
    save(vq_tensors(), folder / "vq_ds16_c2i.pt", "model")
    return {"path": str(folder / name), "pixels": str(folder / "vq_ds16_c2i.pt")}


def write_llamagen_t2i(
    folder: Path, layout: str = "model", name: str = "t2i_XL_stage1_256.pt"
) -> dict[str, Any]:
    """Writes generator, VQ and text encoder; what `load_backbone("llamagen_t2i", ...)` takes."""
    save(caption_tensors(), folder / name, layout)
    save(vq_tensors(), folder / "vq_ds16_t2i.pt", "model")
    write_t5(folder / "flan-t5-xl")
    return {
        "path": str(folder / name),
        "pixels": str(folder / "vq_ds16_t2i.pt"),
        "text_encoder": str(folder / "flan-t5-xl"),
    }


def save(tensors: dict[str, Tensor], path: Path, layout: str) -> None:
    """As the published training jobs save: bare (FSDP), or under a key, beside the job's command line."""
    # The published modules register these two as buffers, but with parameters in them.
    registered = ("cls_embedding.uncond_embedding", "quantize.codebook_used")
    held = {name: Parameter(tensor) if name in registered else tensor for name, tensor in tensors.items()}
    stored = held if layout == "bare" else {layout: held, "steps": 300_000, "args": Namespace(lr=1e-4)}
    torch.save(stored, path)


def class_tensors(width: int = WIDTH, layers: int = LAYERS, seed: int = 0) -> dict[str, Tensor]:
    """A class model's tensors, by their published names."""
    fill = filler(seed)
    table = fill(CLASSES + 1, width, gain=SMALL * width**0.5)
    return {"cls_embedding.embedding_table.weight": table, **dict(trunk_tensors(fill, width, layers))}


def caption_tensors(seed: int = 1) -> dict[str, Tensor]:
    """A caption model's tensors, by their published names."""
    fill = filler(seed)
    return {
        "cls_embedding.uncond_embedding": fill(LONGEST, FEATURES, gain=FEATURES**0.5),
        "cls_embedding.cap_proj.fc1.weight": fill(WIDTH, FEATURES),
        "cls_embedding.cap_proj.fc2.weight": fill(WIDTH, WIDTH, gain=4 * SMALL),
        **dict(trunk_tensors(fill, WIDTH, LAYERS)),
    }


def trunk_tensors(fill, width: int, layers: int) -> Iterator[tuple[str, Tensor]]:
    yield "tok_embeddings.weight", fill(CODES, width, gain=SMALL * width**0.5)
    for layer in range(layers):
        name = f"layers.{layer}"
        yield f"{name}.attention.wqkv.weight", fill(3 * width, width)
        yield f"{name}.attention.wo.weight", fill(width, width)
        yield f"{name}.feed_forward.w1.weight", fill(INNER, width)
        yield f"{name}.feed_forward.w3.weight", fill(INNER, width)
        yield f"{name}.feed_forward.w2.weight", fill(width, INNER)
        yield f"{name}.attention_norm.weight", 1 + fill(width, gain=0.3 * width**0.5)
        yield f"{name}.ffn_norm.weight", 1 + fill(width, gain=0.3 * width**0.5)
    yield "norm.weight", 1 + fill(width, gain=0.3 * width**0.5)
    yield "output.weight", fill(CODES, width)


def vq_tensors(levels: int = LEVELS, seed: int = 2) -> dict[str, Tensor]:
    """A VQ's tensors by their published names: all levels equally wide, one residual block each."""
    fill = filler(seed)
    tensors = {"quantize.embedding.weight": fill(CODES, DEPTH), "quantize.codebook_used": torch.zeros(65_536)}

    def convolution(name: str, out: int, into: int, side: int) -> None:
        tensors[f"{name}.weight"] = fill(out, into, side, side, gain=1 / side)
        tensors[f"{name}.bias"] = fill(out)

    def norm(name: str) -> None:
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = 1 + fill(CHANNELS), fill(CHANNELS)

    def residual(name: str) -> None:
        for i in (1, 2):
            norm(f"{name}.norm{i}")
            convolution(f"{name}.conv{i}", CHANNELS, CHANNELS, 3)

    def attention(name: str) -> None:
        norm(f"{name}.norm")
        for part in ("q", "k", "v", "proj_out"):
            convolution(f"{name}.{part}", CHANNELS, CHANNELS, 1)

    for side, blocks, resample, coarsest in (
        ("encoder", 1, "downsample", levels - 1),
        ("decoder", 2, "upsample", 0),
    ):
        convolution(f"{side}.conv_in", CHANNELS, 3 if side == "encoder" else LATENT, 3)
        for level in range(levels):
            for block in range(blocks):
                residual(f"{side}.conv_blocks.{level}.res.{block}")
                if level == coarsest:
                    attention(f"{side}.conv_blocks.{level}.attn.{block}")
            if level < levels - 1:
                convolution(f"{side}.conv_blocks.{level}.{resample}.conv", CHANNELS, CHANNELS, 3)
        residual(f"{side}.mid.0")
        attention(f"{side}.mid.1")
        residual(f"{side}.mid.2")
        norm(f"{side}.norm_out")
        convolution(f"{side}.conv_out", LATENT if side == "encoder" else 3, CHANNELS, 3)
    convolution("quant_conv", DEPTH, LATENT, 1)
    convolution("post_quant_conv", LATENT, DEPTH, 1)
    return tensors


def filler(seed: int):
    """Makes normal tensors whose products keep their size (variance `gain**2 / columns`)."""
    generator = torch.Generator().manual_seed(seed)

    def fill(*shape: int, gain: float = 1.0) -> Tensor:
        return (
            torch.randn(shape, generator=generator)
            * gain
            * (shape[1] if len(shape) > 1 else shape[0]) ** -0.5
        )

    return fill
