"""EAGLE's drafter: one transformer layer that runs over states and tokens and predicts the next state.

From the pair [s_t ; embedding of token t] and all pairs before it, the layer predicts s_(t+1), the state that
emits the next token of the raster; its own predictions carry it further. The form is EAGLE's (arXiv
2401.15077) with the layer's input norm kept, on states before the final norm as everywhere here. The start is
ours: an untrained drafter returns the state it reads.
"""

from collections.abc import Iterator, Mapping
from math import ceil, isfinite

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from backbones.cache import SlotCache
from backbones.contract import Grid
from backbones.errors import RowcastError
from heads.contract import Draft, DraftHeads, Lesson
from heads.loss import law_loss
from heads.options import EagleHeads

ATTENTION_WIDTH = 64
"""Of an attention head, where their number is not given."""
ROTARY_BASE = 10_000.0
NOISE_LENGTH = 512
"""Tokens for which `noise` is stated."""


class EagleDrafter(DraftHeads):
    """The drafter; its sequence is the image's raster, without prompt and row ends.

    Args:
        width: D, the width of the backbone's states.
        attention_heads: none takes the width in 64s.
        hidden: SwiGLU width as a multiple of D.
        law_weight: of the cross-entropy in the loss.
        noise: width of the uniform noise on states in training, for 512 tokens.

    Raises:
        RowcastError: if an attention head or the SwiGLU layer would have no unit.
    """

    kind = "eagle"

    def __init__(
        self,
        width: int,
        attention_heads: int | None = None,
        hidden: float = 2.75,
        law_weight: float = 0.1,
        noise: float = 0.0,
    ) -> None:
        attention = attention_heads or max(1, width // ATTENTION_WIDTH)
        units = round(hidden * width) if isfinite(hidden) else 0
        if attention > width or units < 1:
            raise RowcastError(
                f"expected attention heads and a layer of at least one unit, found {attention} heads and "
                f"{hidden} times width {width}; set heads.attention_heads=null heads.hidden=2.75"
            )
        super().__init__(
            width,
            EagleHeads(attention_heads=attention, hidden=hidden, law_weight=law_weight, noise=noise),
        )
        self.law_weight, self.noise = law_weight, noise
        self._head_width = 2 * ceil(width / attention / 2)  # rotations turn pairs
        config = LlamaConfig(
            hidden_size=width,
            intermediate_size=units,
            num_attention_heads=attention,
            num_key_value_heads=attention,
            head_dim=self._head_width,
            attn_implementation="sdpa",  # pyright: ignore[reportCallIssue]
        )
        self.mix = nn.Linear(2 * width, width, bias=False)
        self.layer = LlamaDecoderLayer(config, layer_idx=0)
        with torch.no_grad():
            self.mix.weight.zero_()[:, :width].fill_diagonal_(1.0)
            self.layer.self_attn.o_proj.weight.zero_()
            self.layer.mlp.down_proj.weight.zero_()

    @property
    def labels(self) -> tuple[str, ...]:
        return ("t+1",)

    def parts(self) -> Mapping[str, nn.Module]:
        return {"mix": self.mix, "layer": self.layer}

    def check_targets(self, grid: Grid) -> None:
        if grid.size < 2:
            raise RowcastError(
                f"expected a grid of at least two tokens to train a drafter on, found {grid.size}: "
                "train on a larger image"
            )

    def new_cache(self, slots: int) -> SlotCache:
        """An empty cache with room for `slots` pairs."""
        return SlotCache(layers=1, slots=slots)

    def forward(
        self,
        states: Float[Tensor, "B T D"],
        embeddings: Float[Tensor, "B T D"],
        places: Int[Tensor, " T"] | None = None,
        sees: Bool[Tensor, "T E"] | None = None,
        cache: SlotCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Predicts for each pair the state that emits the token after it.

        Inputs of another dtype are cast to the weights' own.

        Args:
            states: emission states, true or predicted.
            embeddings: of the tokens that they emitted.
            places: raster places of the tokens; none counts from 0.
            sees: which entries of the cache, the new ones among them and last, each pair attends to; none is
                causal, for an empty cache alone.
            cache: takes the new pairs; none for whole sequences.
        """
        dtype = self.mix.weight.dtype
        mixed = self.mix(torch.cat([states.to(dtype), embeddings.to(dtype)], dim=-1))
        if places is None:
            places = torch.arange(mixed.shape[1], device=mixed.device)
        return self.layer(
            mixed,
            attention_mask=None if sees is None else sees[None, None],
            position_embeddings=_rotation(places, self._head_width, mixed.dtype),
            cache=cache,
            use_cache=cache is not None,
        )

    def losses(self, lesson: Lesson) -> dict[str, Float[Tensor, ""]]:
        """`state`: Smooth-L1 (beta 1) to the next state, the mean over pairs and width. `law`: cross-entropy
        of the predicted state's law to the true one's, the mean over pairs; left out at weight 0.

        Both guidance branches alike, teacher-forced over whole images. What does not fit into the lesson's
        chunk is computed again in the backward pass: the layer image by image, laws in pieces as large as the
        chunk's states.
        """
        self.check_targets(lesson.grid)
        lesson.check()
        inputs = self._noisy(lesson)[:, :-1], lesson.embeddings[:, :-1]
        targets = lesson.states[:, 1:].flatten(0, 1)
        images = max(1, lesson.chunk // lesson.grid.size)
        parts = zip(*(part.split(images) for part in inputs), strict=True)
        if len(lesson.states) > images:
            predicted = [checkpoint(self, *part, use_reentrant=False) for part in parts]
        else:
            predicted = [self(*part) for part in parts]
        predicted = torch.cat(predicted).flatten(0, 1)
        losses = {"state": functional.smooth_l1_loss(predicted.float(), targets.float())}
        if self.law_weight:
            losses["law"] = law_loss(predicted, targets, lesson)
        return losses

    def drafts(self, lesson: Lesson) -> Iterator[Draft]:
        """The next token alone: further ones hang on tokens that a tree would draw."""
        self.check_targets(lesson.grid)
        predicted = self(lesson.states[:, :-1], lesson.embeddings[:, :-1])
        yield Draft(label="t+1", predicted=predicted, targets=lesson.states[:, 1:])

    def objective(self, losses: Mapping[str, Float[Tensor, ""]]) -> Float[Tensor, ""]:
        """The states' loss, and `law_weight` times the laws'."""
        return losses["state"] + self.law_weight * losses["law"] if "law" in losses else losses["state"]

    def _noisy(self, lesson: Lesson) -> Float[Tensor, "B P D"]:
        """The states to read, with noise against the drafter's own errors if that is wanted."""
        states = lesson.states
        if not self.noise:
            return states
        uniform = torch.rand(states.shape, generator=lesson.generator).to(states.device) - 0.5
        return states.float() + self.noise * NOISE_LENGTH / lesson.grid.size * uniform


def _rotation(
    places: Int[Tensor, " T"], width: int, dtype: torch.dtype
) -> tuple[Float[Tensor, "1 T W"], Float[Tensor, "1 T W"]]:
    """Cosines and sines of rotary positions, as the layer takes them.

    Computed here and not held in a buffer, which loading without memory would leave without values.
    """
    rates = ROTARY_BASE ** (-torch.arange(0, width, 2, device=places.device) / width)
    angles = (places[:, None] * rates).repeat(1, 2)[None]
    return angles.cos().to(dtype), angles.sin().to(dtype)
