"""LlamaGen: the facts of the family on top of the shared trunk (Sun et al., arXiv 2406.06525).

Two models share a trunk: `llamagen_c2i` paints ImageNet classes, `llamagen_t2i` captions. Loads the `.pt`
files of FoundationVision/LlamaGen and peizesun/llamagen_t2i. No row ends; a code is the token itself; square
images. The grid is not in the files, but in their names.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import T5EncoderModel

from backbones.caption_features import (
    EXAMPLE,
    LONGEST,
    OPTION,
    StandInCaptions,
    T5Captions,
    read_captions,
)
from backbones.contract import Grid, Sampling
from backbones.errors import RowcastError
from backbones.llamagen_model import CaptionLlamaGen, ClassLlamaGen, LlamaGen
from backbones.llamagen_trunk import Shape, build_generator, load_generator
from backbones.llamagen_vq import CELL, published_vq, read_vq
from backbones.prompts import scenes
from backbones.sizes import grid_of
from backbones.source import Source, fetch_file
from backbones.torch_file import own, read_tensors, require_matrices

CLASSES, CAPTIONS = "llamagen_c2i", "llamagen_t2i"
SAMPLING = {CLASSES: Sampling(guidance=4.0, top_k=2000), CAPTIONS: Sampling(guidance=7.5, top_k=1000)}
"""Of the published sampling scripts. The Fréchet distances of c2i are at guidance 1.65 to 2 without top-k."""
SIZES = {CLASSES: (256, 384, 512), CAPTIONS: (256, 512)}
"""Pixels along a side."""
SHAPES = {
    "B": Shape.published(layers=12, heads=12, width=768),
    "L": Shape.published(layers=24, heads=16, width=1024),
    "XL": Shape.published(layers=36, heads=20, width=1280),
    "XXL": Shape.published(layers=48, heads=24, width=1536),
    "3B": Shape.published(layers=24, heads=32, width=3200),
}
EXAMPLES = {
    CLASSES: "FoundationVision/LlamaGen/c2i_B_256.pt",
    CAPTIONS: "peizesun/llamagen_t2i/t2i_XL_stage1_256.pt",
}
CLASS_COUNT = 1000
FEATURE_WIDTH = 2048
"""Of flan-t5-xl."""
TABLE = "cls_embedding.embedding_table.weight"
UNCONDITIONAL = "cls_embedding.uncond_embedding"
PROJECTION = ("cls_embedding.cap_proj.fc1.weight", "cls_embedding.cap_proj.fc2.weight")
CONDITION = {CLASSES: (TABLE,), CAPTIONS: (UNCONDITIONAL, *PROJECTION)}
"""The tensors that take conditions."""


def prompts(name: str) -> Sequence[str]:
    """What the family is rolled out on when the user gives no prompts: every class, or composed scenes."""
    return [str(number) for number in range(CLASS_COUNT)] if name == CLASSES else scenes()


def load(source: Source) -> LlamaGen:
    """Loads published weights onto the CPU.

    Raises:
        RowcastError: if files are missing, broken or of another kind of model, or the size is not known.
    """
    name, dtype = source.name, source.torch_dtype
    source.refuse("tokenizer", *(["text_encoder"] if name == CLASSES else []))
    place = source.place(EXAMPLES[name])
    grid = _grid(source, place)
    path = fetch_file(place, source.revision, "model.path")
    tensors = read_tensors(path, "model.path")
    shape = Shape.of(tensors, str(path))
    _check_condition(name, tensors, shape.width, path)
    vq = None
    if source.pixels is not None:
        vq = read_vq(fetch_file(source.pixels, None, "model.pixels"), grid, shape.codes)
    generator = partial(load_generator, tensors, shape=shape, grid=grid, dtype=dtype)
    facts = {"name": name, "sampling": SAMPLING[name], "grid": grid, "vq": vq}
    if name == CLASSES:
        return ClassLlamaGen(generator=generator(tensors[TABLE], longest=1), **facts)
    captions, encoder = _read_captions(source, tensors[UNCONDITIONAL].shape[1])
    projection = _load_projection(tensors, dtype)
    with torch.no_grad():
        learned = projection(tensors[UNCONDITIONAL].to(dtype))
    return CaptionLlamaGen(
        generator=generator(learned, longest=LONGEST),
        captions=captions,
        projection=projection,
        text_encoder=encoder,
        **facts,
    )


def random(source: Source) -> LlamaGen:
    """A published configuration with random weights, on the default device.

    The file name in `model.path` says which one; no file is read. Without a path it is the first published
    one. Captions get stand-in features that mean nothing.
    """
    name, dtype, path = source.name, source.torch_dtype, source.path or EXAMPLES[source.name]
    published = re.fullmatch(rf"{name[-3:]}_({'|'.join(SHAPES)})_.*\.pt", path.rpartition("/")[2])
    if published is None:
        raise RowcastError(
            f"expected the name of a published file, which tells the size of random weights, found {path!r}: "
            f"pass model.path={EXAMPLES[name]} or leave it out"
        )
    shape, grid = SHAPES[published[1]], _grid(source, path)
    generator = partial(build_generator, shape, grid, dtype=dtype)
    facts = {"name": name, "sampling": SAMPLING[name], "grid": grid, "vq": published_vq(grid)}
    if name == CLASSES:
        return ClassLlamaGen(generator=generator(conditions=CLASS_COUNT + 1, longest=1), **facts)
    return CaptionLlamaGen(
        generator=generator(conditions=LONGEST, longest=LONGEST),
        captions=StandInCaptions(FEATURE_WIDTH),
        projection=_projection(shape.width, FEATURE_WIDTH, dtype),
        **facts,
    )


def _grid(source: Source, path: str) -> Grid:
    """The grid that `model.size` or the file's name asks for.

    Raises:
        RowcastError: if neither does, they differ, or the model paints no such size.
    """
    grids = {f"{side}x{side}": Grid(rows=side // CELL, cols=side // CELL) for side in SIZES[source.name]}
    named = re.search(r"_(\d{3})(?:\.|$)", path.rpartition("/")[2])
    by_name = f"{named[1]}x{named[1]}" if named else None
    wanted = by_name if source.size is None else source.size
    if wanted is None:
        raise RowcastError(
            f"expected the image size in the file's name (_256.pt), found {path!r}: pass model.size= one of "
            f"{', '.join(grids)}"
        )
    grid = grid_of(wanted, wanted, grids, source.name)
    if by_name is not None and not source.is_random and grid != grids.get(by_name, grid):
        raise RowcastError(
            f"expected images of {by_name} from {path!r}, found model.size={source.size}: leave model.size "
            "out, or pass the weights for that size"
        )
    return grid


def _check_condition(name: str, tensors: Mapping[str, Tensor], width: int, path: Path) -> None:
    """Raises RowcastError unless the part of the checkpoint that takes conditions is that of model `name`."""
    missing = [key for key in CONDITION[name] if key not in tensors]
    if missing:
        other = CAPTIONS if name == CLASSES else CLASSES
        hint = f"pass model={other} for them" if tensors.keys() & set(CONDITION[other]) else "fetch it again"
        raise RowcastError(f"expected the weights of {name}, found no {missing[0]} in {path}: {hint}")
    require_matrices(tensors, CONDITION[name], str(path))
    if name == CLASSES:
        expected = {TABLE: (max(2, len(tensors[TABLE])), width)}
    else:
        features = tensors[PROJECTION[0]].shape[-1]
        sizes = (LONGEST, features), (width, features), (width, width)
        expected = dict(zip(CONDITION[name], sizes, strict=True))
    for key, shape in expected.items():
        if tensors[key].shape != shape:
            raise RowcastError(
                f"expected {shape} for {key}, found {tuple(tensors[key].shape)} in {path}: fetch it again"
            )


def _read_captions(source: Source, width: int) -> tuple[T5Captions, T5EncoderModel]:
    """The caption reader of `model.text_encoder`, whose features must be `width` wide."""
    if source.text_encoder is None:
        raise RowcastError(f"expected a text encoder for {source.name}, found none: pass {OPTION}={EXAMPLE}")
    captions, encoder = read_captions(source.text_encoder, source.torch_dtype)
    if encoder.config.d_model != width:
        raise RowcastError(
            f"expected a text encoder with features {width} wide, found {encoder.config.d_model} in "
            f"{source.text_encoder}: pass {EXAMPLE}, which the generator was trained with"
        )
    return captions, encoder


def _projection(width: int, features: int, dtype: torch.dtype) -> nn.Sequential:
    """From a text encoder's features to what the trunk is fed."""
    linear = partial(nn.Linear, bias=False, dtype=dtype)
    return nn.Sequential(linear(features, width), nn.GELU(approximate="tanh"), linear(width, width))


def _load_projection(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> nn.Sequential:
    width, features = tensors[PROJECTION[0]].shape
    with torch.device("meta"):
        projection = _projection(width, features, dtype)
    first, second = (own(tensors[name], dtype) for name in PROJECTION)
    projection.load_state_dict({"0.weight": first, "2.weight": second}, assign=True)
    return projection
