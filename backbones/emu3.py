"""Emu3-Gen: the facts of the family on top of the shared trunk.

Loads a folder or hub id in transformers' own format (`BAAI/Emu3-Gen-hf`); the older `BAAI/Emu3-Gen` needs
code from the hub, which Rowcast never runs. Image codes are rows of the text vocabulary; every row of an
image ends in a forced token; the unconditional prompt is a list of things to avoid, with the image header.
"""

from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from transformers import (
    Emu3Config,
    Emu3ForConditionalGeneration,
    GenerationConfig,
)
from transformers.models.emu3.configuration_emu3 import Emu3TextConfig, Emu3VQVAEConfig
from transformers.models.emu3.modeling_emu3 import Emu3VQVAE

from backbones.contract import Grid, Sampling
from backbones.emu3_prompt import BOS, FIRST_CODE, PAD, SPECIAL, PromptFormat, visual_token
from backbones.errors import RowcastError
from backbones.janus_loop import LibraryLoop, drawing
from backbones.pixels import to_uint8
from backbones.pretrained import check_agreement, read_config, read_model, read_tokenizer
from backbones.prompts import scenes
from backbones.sizes import grid_of
from backbones.source import Source, fetch, require_files
from backbones.standin import byte_tokenizer
from backbones.trunk import SharedTrunk

SAMPLING = Sampling(guidance=3.0, top_k=2048)
FILES = ("*.json", "*.txt", "*.safetensors")
EXAMPLE = "BAAI/Emu3-Gen-hf"
NEEDED = ("model.text_model.", "model.vqmodel.", "lm_head.")
RENAMES = {
    r"^text_model\.model\.": "model.text_model.",
    r"^text_model\.lm_head\.": "lm_head.",
    r"^vqmodel\.": "model.vqmodel.",
}
"""Weights by the names of transformers 4.48, which the published files have, and by today's."""

AREAS = (720 * 720, 512 * 512)
"""Pixels of an image in the two stages of training; the first is the default."""
RATIOS = ((1, 1), (4, 3), (3, 4), (3, 2), (2, 3), (16, 9), (9, 16))
"""Width to height."""


class Emu3(SharedTrunk):
    """An Emu3 model behind the backbone contract."""

    vq: Emu3VQVAE  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(
        self, model: Emu3ForConditionalGeneration, prompt_format: PromptFormat, *, name: str, grid: Grid
    ) -> None:
        """Takes `model` over: its trunk loses its final norm, and a part of its output layer is copied."""
        core = model.model
        words = core.text_model.embed_tokens.weight.detach()
        image_ids = torch.tensor(image_token_ids(model.config), device=words.device)
        row_end = nn.Embedding.from_pretrained(words[prompt_format.row_end][None].clone())
        super().__init__(
            name=name,
            trunk=core.text_model,
            image_head=rows_of(model.lm_head, image_ids),
            image_table=words[image_ids],
            grid=grid,
            sampling=SAMPLING,
            pad=prompt_format.pad,
            hashed={"codebook": core.vqmodel.quantize, "row_end": row_end},
            row_end=row_end.weight[0],
            vq=core.vqmodel,
        )
        self._format, self._words = prompt_format, prompt_format.words

    def prompt_ids(self, prompt: str) -> list[int]:
        return self._format.ids(prompt)

    def unconditional_ids(self, ids: list[int]) -> list[int]:
        return self._format.negative

    def codebook(self) -> Float[Tensor, "V d"]:
        return self.vq.quantize.embedding.weight

    @torch.no_grad()
    def decode(self, tokens: Int[Tensor, "N P"]) -> UInt8[Tensor, "N 3 H W"]:
        self.check_images(tokens)
        codes = tokens.unflatten(1, (self.grid.rows, self.grid.cols))
        # One image at a time: the decoder is a video's and holds four frames of each.
        return torch.cat([to_uint8(self.vq.decode(image[None])) for image in codes])


def rows_of(layer: nn.Linear, rows: Int[Tensor, " V"]) -> nn.Linear:
    """Some rows of a bias-free output layer, copied, so that the whole layer can be freed."""
    weight = layer.weight.detach()[rows]
    part = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    part.weight = nn.Parameter(weight, requires_grad=False)
    return part


def image_token_ids(config: Emu3Config) -> list[int]:
    """Vocabulary ids of the image codes, in the order of the codes.

    Raises:
        RowcastError: if the configuration does not name them all.
    """
    vocabulary = config.vocabulary_map or {}
    names = [visual_token(code) for code in range(_vq(config).codebook_size)]
    missing = [name for name in names if name not in vocabulary]
    if missing:
        raise RowcastError(
            f"expected {len(names)} image tokens in the vocabulary_map of config.json, "
            f"found no {missing[0]}: use the config.json that was published with the weights"
        )
    return [vocabulary[name] for name in names]


def sizes(config: Emu3Config) -> dict[str, Grid]:
    """Image sizes in pixels, width x height, and their grids, by the released rule; the first is the default.

    A configuration that names its `image_area`, as those of the first release do, has the sizes of that area.
    """
    areas = (config.image_area,) if hasattr(config, "image_area") else AREAS
    cell = 2 ** (len(_vq(config).channel_multiplier) - 1)
    grids = {}
    for area in areas:
        for width, height in RATIOS:
            scale = (area / (width * height)) ** 0.5 / cell
            grid = Grid(rows=round(height * scale), cols=round(width * scale))
            grids[f"{grid.cols * cell}x{grid.rows * cell}"] = grid
    return grids


def prompts(name: str) -> Sequence[str]:
    """What the family is rolled out on when the user gives no prompts."""
    return scenes()


def load(source: Source) -> Emu3:
    """Loads published weights onto the CPU.

    Raises:
        RowcastError: if files are missing, broken or of another kind of model, or there is no such size.
    """
    source.refuse("tokenizer", "pixels", "text_encoder")
    model, prompt_format, grid = stock(source)
    return Emu3(model, prompt_format, name=source.name, grid=grid)


def random(source: Source) -> Emu3:
    """The published configuration with random weights and a stand-in tokenizer, on the default device."""
    config = published_config()
    grid = _grid(source, config)
    model = Emu3ForConditionalGeneration._from_config(config, dtype=source.torch_dtype)
    tokenizer = byte_tokenizer(SPECIAL, bos_token=BOS, pad_token=PAD)
    return Emu3(model, PromptFormat(tokenizer, grid), name=source.name, grid=grid)


def published_config() -> Emu3Config:
    """The configuration of `BAAI/Emu3-Gen-hf`, which is the library's default, without most of its words."""
    vq = Emu3VQVAEConfig()
    codes = {visual_token(code): FIRST_CODE + code for code in range(vq.codebook_size)}
    return Emu3Config(text_config=Emu3TextConfig(), vq_config=vq, vocabulary_map=SPECIAL | codes)


def stock(source: Source) -> tuple[Emu3ForConditionalGeneration, PromptFormat, Grid]:
    """The library's own model, its VQ in fp32, and how it is prompted for images of the wanted size.

    Raises:
        RowcastError: if files are missing, broken or of another kind of model, or there is no such size.
    """
    folder = fetch(source.place(EXAMPLE), source.revision, FILES)
    require_files(folder, "config.json", "tokenizer_config.json", "tokenizer.json", "model*.safetensors")
    config = read_config(folder, Emu3Config, EXAMPLE)
    grid = _grid(source, config)
    tokenizer = read_tokenizer(folder, tuple(SPECIAL))
    check_agreement(tokenizer, config.vocabulary_map or {}, folder)
    model = read_model(
        _Emu3WithExactPixels, folder, config, source.torch_dtype, needed=NEEDED, renames=RENAMES
    )
    return model, PromptFormat(tokenizer, grid), grid


def greedy_reference(source: Source, prompt: str, count: int, device: torch.device) -> Int[Tensor, " count"]:
    """The first image tokens that transformers' own `generate` paints greedily at the official guidance.

    Under the released constraint: image tokens alone, a row end after each row.

    Args:
        source: as for `load`.
        prompt: what to paint.
        count: how many tokens, at most a whole image; each costs two forwards and a slow constraint.
        device: where to run.

    Raises:
        RowcastError: as `load`, and for a prompt that the model can't take.
    """
    paint = _library_loop(source, Sampling(guidance=SAMPLING.guidance, temperature=0.0), device, count)
    return paint(prompt, 0)


def reference_loop(source: Source, sampling: Sampling, device: torch.device) -> LibraryLoop:
    """Transformers' own `generate` of whole images, for the ladder of a benchmark.

    Raises:
        RowcastError: as `load`.
    """
    return _library_loop(source, sampling, device, None)


def _library_loop(source: Source, sampling: Sampling, device: torch.device, count: int | None) -> LibraryLoop:
    model, prompt_format, grid = stock(source)
    model.to(device)  # pyright: ignore[reportArgumentType]
    wanted = grid.size if count is None else count
    return partial(_paint_by_library, model, prompt_format, grid=grid, sampling=sampling, count=wanted)


@torch.no_grad()
def _paint_by_library(
    model: Emu3ForConditionalGeneration,
    prompt_format: PromptFormat,
    prompt: str,
    seed: int,
    *,
    grid: Grid,
    sampling: Sampling,
    count: int,
) -> Int[Tensor, " count"]:
    device = model.device
    ids = torch.tensor([prompt_format.ids(prompt)], device=device)
    avoided = torch.tensor([prompt_format.negative], device=device)
    image_ids = torch.tensor(image_token_ids(model.config), device=device)
    row_end = torch.tensor([prompt_format.row_end], device=device)
    start, stride = ids.shape[1], grid.cols + 1

    def allowed(_: int, sequence: Int[Tensor, " S"]) -> Int[Tensor, " A"]:
        return row_end if (len(sequence) - start) % stride == grid.cols else image_ids

    model.generation_config = GenerationConfig(
        **drawing(sampling),
        guidance_scale=sampling.guidance,
        max_new_tokens=count + (count - 1) // grid.cols,
        pad_token_id=prompt_format.pad,
    )
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        painted = model.generate(  # pyright: ignore[reportAttributeAccessIssue]
            ids,
            attention_mask=torch.ones_like(ids),
            negative_prompt_ids=avoided,
            negative_prompt_attention_mask=torch.ones_like(avoided),
            prefix_allowed_tokens_fn=allowed,
        )
    sequence = painted[0, start:]  # pyright: ignore
    place = torch.arange(len(sequence), device=device)
    found = sequence[place % stride != grid.cols]
    code_of = torch.zeros(model.lm_head.out_features, dtype=torch.long, device=device)
    code_of[image_ids] = torch.arange(len(image_ids), device=device)
    return code_of[found].cpu()


def _grid(source: Source, config: Emu3Config) -> Grid:
    known = sizes(config)
    return grid_of(source.size, next(iter(known)), known, source.name)


def _vq(config: Emu3Config) -> Emu3VQVAEConfig:
    assert isinstance(config.vq_config, Emu3VQVAEConfig)
    return config.vq_config


class _Emu3WithExactPixels(Emu3ForConditionalGeneration):
    """Emu3 whose image tokenizer stays in fp32 whatever the trunk's dtype."""

    _keep_in_fp32_modules_strict = ["vqmodel"]  # noqa: RUF012
