"""Janus and Janus-Pro: the facts of the family on top of the shared trunk.

Loads a folder or hub id in transformers' own format (`deepseek-community/*`; the older `deepseek-ai/*` files
need code from the hub, which Rowcast never runs). No row ends; the grid is fixed by the tokenizer; the image
embeddings pass through an aligner, which makes them a fixed table. The vision encoder, which serves image
understanding, is dropped.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn.functional import normalize
from transformers import (
    AutoConfig,
    AutoTokenizer,
    JanusConfig,
    JanusForConditionalGeneration,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from backbones.contract import Grid, Sampling
from backbones.errors import RowcastError
from backbones.trunk import SharedTrunk

BOI = "<begin_of_image>"
SAMPLING = Sampling(guidance=5.0)

PromptFormat = Callable[[PreTrainedTokenizerBase, str], list[int]]


class Janus(SharedTrunk):
    """A Janus model behind the backbone contract."""

    def __init__(
        self,
        model: JanusForConditionalGeneration,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str,
        sampling: Sampling,
        prompt_format: PromptFormat,
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
            pad=_id_of(tokenizer, "pad_token"),
            hashed={
                "image_embeddings": core.generation_embeddings,
                "aligner": core.generation_aligner,
                "codebook": core.vqmodel.quantize,
            },
        )
        self.vq = core.vqmodel.eval().requires_grad_(False)
        """The image tokenizer, in fp32."""
        self._tokenizer = tokenizer
        self._prompt_format = prompt_format
        self._longest = core.language_model.config.max_position_embeddings - self.grid.size

    def prompt_ids(self, prompt: str) -> list[int]:
        ids = self._prompt_format(self._tokenizer, prompt)
        if len(ids) > self._longest:
            raise RowcastError(
                f"expected a prompt of at most {self._longest} tokens, found {len(ids)}: "
                f"shorten {prompt[:80]!r}"
            )
        return ids

    def unconditional_ids(self, ids: list[int]) -> list[int]:
        return unconditional_ids(ids, self._pad)

    def to(self, device: torch.device | str) -> "Janus":
        super().to(device)
        self.vq.to(device)  # pyright: ignore[reportArgumentType]
        return self

    def codebook(self) -> Float[Tensor, "V d"]:
        # The decoder normalises its codes, whatever their stored length.
        return normalize(self.vq.quantize.embedding.weight, dim=-1)

    @torch.no_grad()
    def decode(self, tokens: Int[Tensor, "N P"]) -> UInt8[Tensor, "N 3 H W"]:
        self.check_images(tokens)
        pixels = self.vq.decode(tokens)  # pyright: ignore[reportArgumentType]
        return ((pixels + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


def unconditional_ids(ids: list[int], pad: int) -> list[int]:
    """The same prompt with its words replaced by pads: attended, unlike the padding of short prompts."""
    return [ids[0], *[pad] * (len(ids) - 2), ids[-1]]


def pro_prompt_ids(tokenizer: PreTrainedTokenizerBase, prompt: str) -> list[int]:
    """Janus-Pro's prompt: begin of sentence, one user turn, then the begin-of-image token.

    Raises:
        RowcastError: if the prompt is empty or holds a special token.
    """
    if not prompt.strip():
        raise RowcastError("expected a prompt, found an empty one: say what to paint")
    turn = f"<|User|>: {prompt}\n\n<|Assistant|>:"
    ids: list[int] = tokenizer.encode(turn, add_special_tokens=False)
    bos, boi = _id_of(tokenizer, "bos_token"), tokenizer.get_vocab()[BOI]
    if {bos, boi, _id_of(tokenizer, "pad_token")} & set(ids):
        raise RowcastError(f"expected plain words, found a special token in {prompt[:80]!r}: remove it")
    return [bos, *ids, boi]


def load_janus(
    path: str | Path,
    *,
    revision: str | None = None,
    dtype: torch.dtype = torch.float32,
    name: str = "janus",
    sampling: Sampling = SAMPLING,
    prompt_format: PromptFormat = pro_prompt_ids,
) -> Janus:
    """Loads `path`, a folder that `save_pretrained` wrote or a hub id, onto the CPU.

    Raises:
        RowcastError: if files are missing, broken or of another kind of model.
    """
    if Path(path).is_dir():
        _check_files(Path(path))
    config = _read_config(str(path), revision)
    logging.disable_progress_bar()  # a bar over a second of loading says nothing
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(path), revision=revision or "main")
        model, report = _JanusWithExactPixels.from_pretrained(
            str(path),
            revision=revision or "main",
            config=config,
            dtype=dtype,
            use_safetensors=True,
            output_loading_info=True,
        )  # pyright: ignore[reportGeneralTypeIssues]
    except Exception as error:  # a truncated or foreign file surfaces as one of a dozen types
        raise RowcastError(
            f"expected loadable Janus weights and tokenizer, found {_first_line(error)} in {path}: "
            "fetch or save the folder again"
        ) from error
    _check_loaded(path, report["missing_keys"], tokenizer)
    return Janus(model, tokenizer, name=name, sampling=sampling, prompt_format=prompt_format)


class _JanusWithExactPixels(JanusForConditionalGeneration):
    """Janus whose image tokenizer stays in fp32 whatever the trunk's dtype."""

    _keep_in_fp32_modules_strict = ["vqmodel"]  # noqa: RUF012


def _read_config(path: str, revision: str | None) -> JanusConfig:
    try:
        config = AutoConfig.from_pretrained(path, revision=revision or "main")
    except (OSError, ValueError) as error:
        raise RowcastError(
            f"expected a folder or hub id of a Janus model, found {path!r} ({_first_line(error)}): "
            "check model.path; the hub also needs a network and no HF_HUB_OFFLINE"
        ) from error
    if not isinstance(config, JanusConfig):
        raise RowcastError(
            f"expected a Janus model, found model type {config.model_type!r} in {path}: "
            "convert it to transformers' Janus format or pass another model.path"
        )
    return config


def _check_files(folder: Path) -> None:
    """The folder holds what `save_pretrained` of a model and a tokenizer writes."""
    missing = [name for name in ("config.json", "tokenizer_config.json") if not (folder / name).is_file()]
    if not any(folder.glob("model*.safetensors")):
        missing.append("model.safetensors")
    if missing:
        raise RowcastError(
            f"expected {', '.join(missing)} in {folder}, found no such file: "
            "point model.path at a folder that save_pretrained wrote"
        )


def _check_loaded(path: str | Path, missing: set[str], tokenizer: PreTrainedTokenizerBase) -> None:
    """Nothing is left at random initialisation, and the prompt format has its special tokens."""
    if missing:
        raise RowcastError(
            f"expected every Janus weight, found none for {min(missing)} in {path}: "
            "fetch or save the folder again"
        )
    for token in (tokenizer.bos_token, tokenizer.pad_token, BOI):
        if token not in tokenizer.get_vocab():
            raise RowcastError(
                f"expected bos, pad and {BOI} tokens in the tokenizer of {path}, found no {token}: "
                "use the tokenizer that was saved with the model"
            )


def _id_of(tokenizer: PreTrainedTokenizerBase, role: str) -> int:
    """The id of one of the tokenizer's named special tokens (`bos_token`, `pad_token`)."""
    return tokenizer.get_vocab()[str(getattr(tokenizer, role))]


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
