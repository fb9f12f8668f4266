"""Spatially Speculative Decoding (SSD, arXiv 2606.20543) in plain transformers, for Janus and Emu3-Gen.

    painted = model.generate(
        ids, attention_mask=mask, custom_generate="me/heads", heads="me/heads", trust_remote_code=True
    )

Lossy, as `decoder=ssd` of Rowcast, which wrote this file: two rounds of verification a row, one in row 0.
Sampling is the bundle's; `sampling={"temperature": 0}` changes what it names. `transformers.set_seed` seeds.
"""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from torch.nn import functional
from transformers import DynamicCache, Emu3ForConditionalGeneration, JanusForConditionalGeneration
from transformers.generation import TopKLogitsWarper, TopPLogitsWarper
from transformers.utils import cached_file
from transformers.utils.versions import require_version

PARTS = ("mix", "norm", "gate", "up", "down")
SETTINGS = ("guidance", "temperature", "top_k", "top_p")
HUB = ("revision", "token", "cache_dir", "local_files_only")
ROW_END, CLOSING = "<|extra_200|>", ("<|extra_201|>", "<|image end|>", "<|extra_204|>")
Weights = dict[str, Tensor]


@dataclass
class Family:
    """What painting needs of a model. A state is the output of the trunk before its final norm."""

    trunk: Any
    table: Tensor
    """What the trunk is fed for each image code, [V, D]."""
    head: Callable[[Tensor], Tensor]
    """From normed states to logits of the codes."""
    grid: list[int]
    """Rows and columns."""
    unconditional: Any
    """Ids and mask of the other branch of guidance, [N, L] each; none where the caller gave none."""
    row_end: Any = None
    """Embedding of the token after each row, [1, D], in a family that has one."""
    written: Callable[[Tensor], Tensor] = lambda codes: codes
    """From codes [N, P] to what the model's own `generate` returns."""


def generate(
    model: Any,
    *,
    inputs: Any = None,
    input_ids: Any = None,
    attention_mask: Any = None,
    negative_prompt_ids: Any = None,
    negative_prompt_attention_mask: Any = None,
    generation_config: Any = None,
    heads: str | None = None,
    sampling: dict[str, float | None] | None = None,
    **others: Any,
) -> Tensor:
    """Paints one image a prompt; returns what the model's own `generate` does.

    Janus: codes [N, P], for `model.decode_image_tokens`. Emu3: prompts, rows with their ends and three more
    tokens, for `model.model.decode_image_tokens(sequences[:, prompt_length:], height=rows, width=columns)`.

    Args:
        model: `JanusForConditionalGeneration` or `Emu3ForConditionalGeneration`, in the dtype of the heads.
        inputs: prompts [N, L], padded on the left, whose last token predicts image token 0.
        input_ids: another name of `inputs`.
        attention_mask: 1 where a prompt has a token, [N, L]; none: everywhere.
        negative_prompt_ids: for Emu3, what to avoid, [N or 1, L], with the image's size as in the prompts.
        negative_prompt_attention_mask: theirs.
        generation_config: the model's own; settings that differ from it are refused.
        heads: the place that `custom_generate` names: a folder, or organisation/name on the hub.
        sampling: guidance, temperature (0: greedy), top_k, top_p in place of the bundle's.
        others: where the hub's library looks (those of HUB); whatever else is set is refused.

    Raises:
        ValueError: if the heads do not fit the model, are damaged, or an argument is missing or unknown.
    """
    require_version("transformers>=5.24", "Earlier releases were not tried.")
    known = isinstance(model, JanusForConditionalGeneration | Emu3ForConditionalGeneration)
    _require(known, "a Janus or Emu3 for conditional generation", type(model).__name__, "load another model")
    ids = input_ids if inputs is None else inputs
    _require(ids is not None, "prompts as ids", "none", "pass input_ids")
    _require(heads is not None, "heads=", "none", "pass the place that custom_generate= names")
    where = {name: others.pop(name) for name in HUB if name in others}
    usual = model._prepare_generation_config(None)[0].to_dict()
    asked = {} if generation_config is None else generation_config.to_dict()
    unknown = [name for name, value in others.items() if value is not None and value is not False]
    unknown += [name for name, value in asked.items() if value not in (None, usual.get(name))]
    advice = "leave them out; guidance, temperature, top_k and top_p go into sampling={...}"
    _require(not unknown, "arguments that SSD knows", ", ".join(unknown), advice)
    config, weights = _load(str(heads), where, model.device)
    law = {**config["sampling"], **(sampling or {})}
    _require(set(law) == set(SETTINGS), f"sampling of {', '.join(SETTINGS)}", ", ".join(law), "correct it")

    mask = torch.ones_like(ids) if attention_mask is None else attention_mask
    if isinstance(model, JanusForConditionalGeneration):
        family = _janus(model, ids, mask)
    else:
        family = _emu3(model, ids, negative_prompt_ids, negative_prompt_attention_mask)
    _check(config["backbone"], family)
    branches = [(ids, mask)]
    if law["guidance"] != 1:
        _require(family.unconditional is not None, "negative_prompt_ids", "none", "say what to avoid")
        branches.append(family.unconditional)
    length = max(ids.shape[1] for ids, _ in branches)
    ids, mask = (
        torch.cat([functional.pad(part, (length - part.shape[1], 0)) for part in parts])
        for parts in zip(*branches, strict=True)
    )
    canvas = Canvas(family, weights, law, family.trunk.get_input_embeddings()(ids), mask)
    canvas.paint(config["heads"]["horizontal"])
    return family.written(canvas.tokens)


class Canvas:
    """The images being painted. Position i is a raster index; state i is the one that emits token i."""

    def __init__(self, family: Family, weights: Weights, law: dict, embeds: Tensor, mask: Tensor) -> None:
        self.family, self.weights, self.law = family, weights, law
        (self.rows, self.cols), self.cache = family.grid, DynamicCache()
        self.branches = 1 if law["guidance"] == 1 else 2
        # More than the prompt, the image and a row end a row, for all of which there are positions.
        self.mask = functional.pad(mask, (0, self.rows * (self.cols + 1)), value=1)
        self.places = (self.mask.cumsum(-1) - 1).clamp(min=0)
        images, size = len(embeds) // self.branches, self.rows * self.cols
        self.tokens = torch.zeros(images, size, dtype=torch.long, device=embeds.device)
        self.states = embeds.new_zeros(len(embeds), size + 1, embeds.shape[-1])
        self.states[:, :1] = self.run(embeds)[:, -1:]

    def paint(self, ahead: int, rounds: int = 2, first_rounds: int = 1) -> None:
        """Row 0 in blocks of `ahead` drafts to the right, each from the last final token; then row by row."""
        self.tokens[:, :1] = draw(self.laws(self.states[:, :1]))
        start = 0
        while start < self.cols:
            anchor = max(start - 1, 0)
            end = min(anchor + ahead + 1, self.cols)
            drafts = [self.predict(f"h+{step}", anchor, anchor + 1) for step in range(1, end - anchor)]
            self.block(start, anchor + 1, torch.cat(drafts, 1), first_rounds)
            start = end
        for start in range(self.cols, self.rows * self.cols, self.cols):
            # Column 0 is exact: the forward before has its state. The others come from the row above.
            self.tokens[:, start : start + 1] = draw(self.laws(self.states[:, start : start + 1]))
            self.block(start, start + 1, self.predict("v+1", start - self.cols + 1, start), rounds)

    def block(self, start: int, first: int, drafts: Tensor, rounds: int) -> None:
        """Draws tokens from `first` on from drafted states, refines them together, commits `start..end`."""
        end = first + drafts.shape[1]
        q = self.laws(drafts.to(self.states.dtype))
        self.tokens[:, first:end] = draw(q)
        for _ in range(rounds):
            past = self.cache.get_seq_length()
            self.feed(start, end)
            self.cache.crop(past - self.cache.get_seq_length())  # the drafts may still change
            p = self.laws(self.states[:, first:end])
            self.tokens[:, first:end] = couple(p, q, self.tokens[:, first:end])
            q = p
        if end < self.tokens.shape[1]:  # nothing leans on the states of the last row
            self.feed(start, end)

    def feed(self, start: int, end: int) -> None:
        """Feeds tokens `start..end` of one row: gives the states after them. A row end emits the next row."""
        embeds = self.family.table[self.tokens[:, start:end]]
        row_end = None if end % self.cols else self.family.row_end
        if row_end is not None:
            embeds = torch.cat([embeds, row_end.expand(len(embeds), 1, -1)], 1)
        states = self.run(embeds.repeat(self.branches, 1, 1))
        if row_end is not None:
            states = torch.cat([states[:, :-2], states[:, -1:]], 1)
        self.states[:, start + 1 : end + 1] = states

    def run(self, embeds: Tensor) -> Tensor:
        """The trunk's outputs before its final norm, for what follows the cache."""
        past, seen = self.cache.get_seq_length(), []
        end = past + embeds.shape[1]
        hook = self.family.trunk.norm.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        try:
            context = {"attention_mask": self.mask[:, :end], "position_ids": self.places[:, past:end]}
            self.family.trunk(inputs_embeds=embeds, cache=self.cache, use_cache=True, **context)
        finally:
            hook.remove()
        return seen[0]

    def predict(self, label: str, start: int, stop: int) -> Tensor:
        """The states that a head drafts from tokens `start..stop` and the states that emitted these."""
        mix, norm, gate, up, down = (self.weights[f"predictors.{label}.{part}.weight"] for part in PARTS)
        embeds = self.family.table[self.tokens[:, start:stop]].repeat(self.branches, 1, 1)
        mixed = functional.linear(torch.cat([self.states[:, start:stop], embeds], -1).to(mix.dtype), mix)
        normed = functional.rms_norm(mixed, norm.shape, norm, 1e-6)
        gated = functional.silu(functional.linear(normed, gate)) * functional.linear(normed, up)
        return mixed + functional.linear(gated, down)

    def laws(self, states: Tensor) -> Tensor:
        """Probabilities [N, K, V] from states [GN, K, D]: guidance, temperature, top-k, top-p, in fp32."""
        logits = self.family.head(self.family.trunk.norm(states)).float()
        if self.branches == 2:
            wanted, avoided = logits.chunk(2)
            logits = torch.lerp(avoided, wanted, self.law["guidance"])
        if self.law["temperature"] == 0:
            return torch.zeros_like(logits).scatter_(-1, logits.argmax(-1, keepdim=True), 1)
        flat = logits.flatten(0, 1) / self.law["temperature"]
        for warper, limit in ((TopKLogitsWarper, self.law["top_k"]), (TopPLogitsWarper, self.law["top_p"])):
            flat = flat if limit is None else warper(limit)(None, flat)  # pyright: ignore
        return flat.softmax(-1).view_as(logits)


def draw(law: Tensor) -> Tensor:
    """One code [N, K] from each law [N, K, V]."""
    return torch.multinomial(law.flatten(0, -2), 1).view(law.shape[:-1])


def couple(p: Tensor, q: Tensor, drafts: Tensor) -> Tensor:
    """Keeps a draft x of q with probability min(1, p(x)/q(x)); else draws from max(0, p - q)."""
    p_x, q_x = (law.gather(-1, drafts[..., None])[..., 0] for law in (p, q))
    excess = (p - q).clamp(min=0)
    left = torch.where(excess.sum(-1, keepdim=True) > 0, excess, p)
    return torch.where(torch.rand_like(p_x) * q_x < p_x, drafts, draw(left))


def _janus(model: Any, ids: Tensor, mask: Tensor) -> Family:
    core, pad = model.model, model.generation_config.pad_token_id
    _require(pad is not None, "a pad token", "none", "set model.generation_config.pad_token_id")
    # The unconditional prompt: pads in place of all but the first token and begin-of-image.
    words = (mask.cumsum(-1) > 1) & (torch.arange(ids.shape[1], device=ids.device) < ids.shape[1] - 1)
    return Family(
        trunk=core.language_model,
        table=core.generation_aligner(core.generation_embeddings.weight),
        head=core.generation_head,
        grid=list(core.vqmodel.quantize.quant_state_dims),
        unconditional=(ids.masked_fill(words, pad), mask),
    )


def _emu3(model: Any, ids: Tensor, avoided: Any, its_mask: Any) -> Family:
    vocabulary, core = model.config.vocabulary_map, model.model
    grid = _size_in(ids, vocabulary)
    unconditional = None
    if avoided is not None:
        found = _size_in(avoided, vocabulary)
        advice = "encode both with return_for_image_generation=True and the same ratio"
        _require(found == grid, f"negative prompts for images of {grid} tokens", str(found), advice)
        its_mask = torch.ones_like(avoided) if its_mask is None else its_mask
        unconditional = avoided.expand(len(ids), -1), its_mask.expand(len(ids), -1)
    names = (f"<|visual token {code:06d}|>" for code in range(model.config.vq_config.codebook_size))
    codes = torch.tensor([vocabulary[name] for name in names], device=ids.device)
    row_end, *closing = (vocabulary[name] for name in (ROW_END, *CLOSING))

    def written(painted: Tensor) -> Tensor:
        rows = functional.pad(codes[painted].view(-1, *grid), (0, 1), value=row_end).flatten(1)
        return torch.cat([ids, rows, ids.new_tensor(closing).expand(len(ids), -1)], 1)

    words, output = core.text_model.embed_tokens.weight, model.lm_head.weight[codes]
    return Family(
        trunk=core.text_model,
        table=words[codes],
        head=lambda normed: functional.linear(normed, output),
        grid=grid,
        unconditional=unconditional,
        row_end=words[row_end][None],
        written=written,
    )


def _size_in(prompts: Tensor, vocabulary: dict[str, int]) -> list[int]:
    """Rows and columns in the header that ends the prompts, such as `<|image start|>90*90<|image token|>`."""
    names = {number: name for name, number in vocabulary.items()}
    texts = ("".join(names.get(number, "?") for number in prompt[-16:]) for prompt in prompts.tolist())
    headers = {text.rpartition("<|image start|>")[2] for text in texts}
    size = re.fullmatch(r"(\d+)\*(\d+)<\|image token\|>", min(headers))
    advice = "encode prompts with return_for_image_generation=True and the same ratio"
    _require(len(headers) == 1 and size, "prompts that end in one image size", str(headers), advice)
    return [int(number) for number in size.groups()]  # pyright: ignore


def _load(place: str, where: dict[str, Any], device: torch.device) -> tuple[dict[str, Any], Weights]:
    """The config of the bundle, and the heads that it states: same hash of the file, names and shapes."""
    config = json.loads(Path(cached_file(place, "config.json", **where)).read_text())  # pyright: ignore
    heads = config.get("heads", {})
    kind = config.get("schema_version"), heads.get("name")
    _require(kind == (2, "ssd"), "SSD heads in schema version 2", str(kind), "publish the heads again")
    path = Path(cached_file(place, "heads.safetensors", **where))  # pyright: ignore
    with path.open("rb") as file:
        intact = hashlib.file_digest(file, "sha256").hexdigest() == config["weights_sha256"]
    _require(intact, f"{path} with the SHA-256 of config.json", "altered bytes", "copy the bundle again")
    width, units = heads["width"], round(heads["hidden"] * heads["width"])
    shapes = [width, 2 * width], [width], [units, width], [units, width], [width, units]
    weights = {}
    with safe_open(path, framework="pt") as file:
        for label in ("v+1", *(f"h+{step + 1}" for step in range(heads["horizontal"]))):
            for part, shape in zip(PARTS, shapes, strict=True):
                name = f"predictors.{label}.{part}.weight"
                found = file.get_slice(name).get_shape() if name in file.keys() else None  # noqa: SIM118
                _require(found == shape, f"{name} of {shape} in {path}", str(found), "copy the bundle again")
                weights[name] = file.get_tensor(name).to(device)
    return config, weights


def _check(trained: dict[str, Any], family: Family) -> None:
    """Refuses another model than the heads', as far as it can be told without Rowcast's fingerprint."""
    codes, width = family.table.shape
    found = {"rows": family.grid[0], "cols": family.grid[1], "codes": codes, "width": width}
    found |= {"dtype": str(family.table.dtype).removeprefix("torch."), "states": "pre-norm"}
    expected = {name: trained[name] for name in found}
    _require(found == expected, f"the heads' model, {expected}", str(found), "load it in that dtype and size")


def _require(right: object, expected: str, found: str, advice: str) -> None:
    if not right:
        raise ValueError(f"expected {expected}, found {found}: {advice}")
