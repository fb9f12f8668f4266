"""Janus-Pro: the facts of the family on top of the shared trunk.

Loads a folder or hub id in transformers' own format (`deepseek-community/*`; the older `deepseek-ai/*` files
need code from the hub, which Rowcast never runs). No row ends; the grid is fixed by the tokenizer; the image
embeddings pass through an aligner, which makes them a fixed table. The vision encoder, which serves image
understanding, is dropped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn.functional import normalize
from transformers import (
    JanusConfig,
    JanusForConditionalGeneration,
    LlamaConfig,
    PreTrainedTokenizerFast,
)
from transformers.models.janus.configuration_janus import JanusVisionConfig, JanusVQVAEConfig
from transformers.models.janus.modeling_janus import JanusVQVAE

from backbones.contract import Grid, Sampling
from backbones.janus_loop import LibraryLoop, paint_by_library
from backbones.janus_prompt import (
    BOI,
    BOS,
    EOI,
    EOS,
    IMAGE,
    PAD,
    ProFormat,
    PromptFormat,
    unconditional_ids,
)
from backbones.pixels import to_uint8
from backbones.pretrained import check_agreement, read_config, read_model, read_tokenizer
from backbones.prompts import scenes
from backbones.sizes import grid_of
from backbones.source import Source, fetch, require_files
from backbones.standin import byte_tokenizer
from backbones.trunk import SharedTrunk

SAMPLING = Sampling(guidance=5.0)
FILES = ("*.json", "*.safetensors")
EXAMPLE = "deepseek-community/Janus-Pro-1B"
NEEDED = ("model.language_model.", "model.generation_", "model.vqmodel.")
"""Weights that painting uses; the rest understands images or writes text."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """What tells the members of the family apart."""

    width: int
    feed_forward: int
    layers: int
    heads: int
    special: Mapping[str, int]
    """Ids of the special tokens. Only stand-ins are built with them: a checkpoint brings its own."""


PUBLISHED = {
    "janus": Published(
        width=4096,
        feed_forward=11_008,
        layers=30,
        heads=32,
        special={BOS: 100_000, EOS: 100_001, PAD: 100_015, BOI: 100_016, EOI: 100_593, IMAGE: 100_594},
    ),
    # From the pad token on, the ids of 1B are 13 lower; for begin and end of image this is inferred.
    "janus_1b": Published(
        width=2048,
        feed_forward=5632,
        layers=24,
        heads=16,
        special={BOS: 100_000, EOS: 100_001, PAD: 100_002, BOI: 100_003, EOI: 100_580, IMAGE: 100_581},
    ),
}
"""Janus-Pro-7B and Janus-Pro-1B."""


class Janus(SharedTrunk):
    """A Janus model behind the backbone contract."""

    vq: JanusVQVAE  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(
        self,
        model: JanusForConditionalGeneration,
        prompt_format: PromptFormat,
        *,
        name: str,
        sampling: Sampling,
    ) -> None:
        """Takes `model` over: its trunk loses its final norm."""
        core = model.model
        rows, cols = core.vqmodel.quantize.quant_state_dims
        with torch.no_grad():
            table = core.generation_aligner(core.generation_embeddings.weight)
        super().__init__(
            name=name,
            trunk=core.language_model,
            image_head=core.generation_head,
            image_table=table,
            grid=Grid(rows=rows, cols=cols),
            sampling=sampling,
            pad=prompt_format.pad,
            hashed={
                "image_embeddings": core.generation_embeddings,
                "aligner": core.generation_aligner,
                "codebook": core.vqmodel.quantize,
            },
            vq=core.vqmodel,
        )
        self._format, self._words = prompt_format, prompt_format.words

    def prompt_ids(self, prompt: str) -> list[int]:
        return self._format.ids(prompt)

    def unconditional_ids(self, ids: list[int]) -> list[int]:
        return unconditional_ids(ids, self._format.pad)

    def codebook(self) -> Float[Tensor, "V d"]:
        # The decoder normalises its codes, whatever their stored length.
        return normalize(self.vq.quantize.embedding.weight, dim=-1)

    @torch.no_grad()
    def decode(self, tokens: Int[Tensor, "N P"]) -> UInt8[Tensor, "N 3 H W"]:
        self.check_images(tokens)
        return to_uint8(self.vq.decode(tokens))  # pyright: ignore[reportArgumentType]


def prompts(name: str) -> Sequence[str]:
    """What the family is rolled out on when the user gives no prompts."""
    return scenes()


def load(source: Source) -> Janus:
    """Loads published weights onto the CPU.

    Raises:
        RowcastError: if files are missing, broken or of another kind of model, or the size is another.
    """
    return read(source, source.place(EXAMPLE), SAMPLING, ProFormat)


def read(source: Source, place: str, sampling: Sampling, prompt_format: type[PromptFormat]) -> Janus:
    """Reads a folder that `save_pretrained` wrote, or a hub id, onto the CPU.

    Args:
        source: the options; its `path` is not looked at.
        place: folder or hub id.
        sampling: official sampling settings.
        prompt_format: how prompts are written.

    Raises:
        RowcastError: if files are missing, broken or of another kind of model, or the size is another.
    """
    source.refuse("tokenizer", "pixels", "text_encoder")
    model, tokenizer = stock(source, place, prompt_format.special)
    backbone = Janus(model, prompt_format(tokenizer), name=source.name, sampling=sampling)
    check_size(source.size, backbone.vq, source.name)
    return backbone


def random(source: Source) -> Janus:
    """The published configuration with random weights and a stand-in tokenizer, on the default device."""
    facts = PUBLISHED[source.name]
    model = JanusForConditionalGeneration._from_config(published_config(facts), dtype=source.torch_dtype)
    check_size(source.size, model.model.vqmodel, source.name)
    tokenizer = byte_tokenizer(facts.special, bos_token=BOS, eos_token=EOS, pad_token=PAD)
    return Janus(model, ProFormat(tokenizer), name=source.name, sampling=SAMPLING)


def published_config(facts: Published) -> JanusConfig:
    """The configuration of a published checkpoint."""
    text = LlamaConfig(
        vocab_size=102_400,
        hidden_size=facts.width,
        intermediate_size=facts.feed_forward,
        num_hidden_layers=facts.layers,
        num_attention_heads=facts.heads,
        num_key_value_heads=facts.heads,
        max_position_embeddings=16_384,
        rms_norm_eps=1e-6,
        bos_token_id=facts.special[BOS],
        eos_token_id=facts.special[EOS],
        pad_token_id=facts.special[PAD],
    )
    return JanusConfig(
        text_config=text,
        vision_config=JanusVisionConfig(projection_dim=facts.width),
        vq_config=JanusVQVAEConfig(projection_dim=facts.width, image_token_embed_dim=facts.width),
        image_token_id=facts.special[IMAGE],
    )


def check_size(size: str | None, vq: JanusVQVAE, name: str) -> None:
    """The image tokenizer fixes the grid, so one size alone is possible.

    Raises:
        RowcastError: for any other.
    """
    rows, cols = vq.quantize.quant_state_dims
    cell = 2 ** (len(vq.config.channel_multiplier) - 1)
    pixels = f"{cols * cell}x{rows * cell}"
    grid_of(size, pixels, {pixels: Grid(rows=rows, cols=cols)}, name)


def stock(
    source: Source, place: str, special: Sequence[str]
) -> tuple[JanusForConditionalGeneration, PreTrainedTokenizerFast]:
    """The library's own model, its VQ in fp32, and its tokenizer.

    Raises:
        RowcastError: if files are missing, broken or of another kind of model.
    """
    folder = fetch(place, source.revision, FILES)
    require_files(folder, "config.json", "tokenizer_config.json", "tokenizer.json", "model*.safetensors")
    config = read_config(folder, JanusConfig, EXAMPLE)
    tokenizer = read_tokenizer(folder, special)
    # The special tokens of 1B and 7B have other ids.
    check_agreement(tokenizer, {IMAGE: config.image_token_id}, folder)
    model = read_model(_JanusWithExactPixels, folder, config, source.torch_dtype, needed=NEEDED)
    return model, tokenizer


def greedy_reference(source: Source, prompt: str, count: int, device: torch.device) -> Int[Tensor, " count"]:
    """The first image tokens that transformers' own `generate` paints greedily at the official guidance.

    Args:
        source: as for `load`.
        prompt: what to paint.
        count: how many tokens; a whole image is painted, and what lies beyond them is cut off.
        device: where to run.

    Raises:
        RowcastError: as `load`, and for a prompt that the model can't take.
    """
    place = source.place(EXAMPLE)
    return generated(
        source, place, prompt, count=count, device=device, sampling=SAMPLING, prompt_format=ProFormat
    )


def generated(
    source: Source,
    place: str,
    prompt: str,
    *,
    count: int,
    device: torch.device,
    sampling: Sampling,
    prompt_format: type[PromptFormat],
) -> Int[Tensor, " count"]:
    """What `greedy_reference` gives, of any member of the family; of `sampling` the guidance counts.

    Raises:
        RowcastError: as `load`, and for a prompt that the model can't take.
    """
    paint = library_loop(source, place, replace(sampling, temperature=0.0), device, prompt_format)
    return paint(prompt, 0)[:count]


def reference_loop(source: Source, sampling: Sampling, device: torch.device) -> LibraryLoop:
    """Transformers' own `generate`, for the ladder of a benchmark.

    Raises:
        RowcastError: as `load`.
    """
    return library_loop(source, source.place(EXAMPLE), sampling, device, ProFormat)


def library_loop(
    source: Source,
    place: str,
    sampling: Sampling,
    device: torch.device,
    prompt_format: type[PromptFormat],
) -> LibraryLoop:
    """`reference_loop` of any member of the family.

    Raises:
        RowcastError: as `load`.
    """
    model, tokenizer = stock(source, place, prompt_format.special)
    model.to(device)  # pyright: ignore[reportArgumentType]
    return partial(paint_by_library, model, prompt_format(tokenizer), sampling)


class _JanusWithExactPixels(JanusForConditionalGeneration):
    """Janus whose image tokenizer stays in fp32 whatever the trunk's dtype."""

    _keep_in_fp32_modules_strict = ["vqmodel"]  # noqa: RUF012
