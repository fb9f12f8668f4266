"""Stage 2 of `backbones.pocket.pretrain`: the autoregressive trunk, on the tokenizer's codes.

Next-token cross-entropy in raster order, 10 % of the prompts replaced by the unconditional one
(classifier-free guidance). Muon for the hidden matrices, AdamW for the rest.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import JanusForConditionalGeneration, PreTrainedTokenizerBase

from backbones.janus_prompt import unconditional_ids
from backbones.padding import left_padded
from backbones.pocket.architecture import PAD_ID
from backbones.pocket.photographs import Photographs, caption, draw_colours, tint
from backbones.pocket.prompt import prompt_ids
from backbones.pocket.schedule import Stage, batch_generator
from backbones.pocket.train_tokenizer import tokenize

BATCH = 32
PEAK_RATE = 2e-3
UNCONDITIONAL_SHARE = 0.1


class MuonAndAdamW(torch.optim.Optimizer):
    """Muon on the trunk's hidden matrices, AdamW on everything else, stepped as one."""

    def __init__(self, model: JanusForConditionalGeneration) -> None:
        hidden = [p for n, p in model.model.language_model.layers.named_parameters() if p.dim() == 2]
        chosen = {id(p) for p in hidden}
        rest = [p for p in trained_parameters(model) if id(p) not in chosen]
        self._parts = (
            torch.optim.Muon(hidden, lr=PEAK_RATE, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(rest, lr=PEAK_RATE, weight_decay=0.02, betas=(0.9, 0.95)),
        )
        super().__init__([{"params": hidden}, {"params": rest}], {})
        self.param_groups = [group for part in self._parts for group in part.param_groups]

    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for part in self._parts:
            part.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        for part in self._parts:
            part.zero_grad(set_to_none)

    def state_dict(self) -> dict:
        return {str(i): part.state_dict() for i, part in enumerate(self._parts)}

    def load_state_dict(self, state_dict: dict) -> None:
        for i, part in enumerate(self._parts):
            part.load_state_dict(state_dict[str(i)])
        self.param_groups = [group for part in self._parts for group in part.param_groups]


def trained_parameters(model: JanusForConditionalGeneration) -> list[torch.nn.Parameter]:
    """What this stage trains: the trunk, the image embeddings, their aligner and the image head."""
    core = model.model
    parts = (core.language_model, core.generation_embeddings, core.generation_aligner, core.generation_head)
    return [p for part in parts for p in part.parameters()]


def initialise(model: JanusForConditionalGeneration) -> None:
    """Image embeddings start as the codes they name; the aligner keeps their scale."""
    core = model.model
    with torch.no_grad():
        core.generation_embeddings.weight.copy_(core.vqmodel.quantize.embedding.weight)
        for module in core.generation_aligner.modules():
            if isinstance(module, torch.nn.Linear):
                torch.nn.init.normal_(module.weight, std=module.in_features**-0.5)


def token_loss(
    model: JanusForConditionalGeneration,
    rows: list[list[int]],
    codes: Int[Tensor, "B P"],
) -> Float[Tensor, ""]:
    """Mean negative log-likelihood of `codes` in nats per token, given prompt id rows."""
    core = model.model
    ids, mask = left_padded(rows, PAD_ID)
    image = core.generation_aligner(core.generation_embeddings(codes[:, :-1]))
    embeds = torch.cat([core.language_model.embed_tokens(ids), image], 1)
    full = torch.cat([mask, mask.new_ones(image.shape[:2])], 1)
    out = core.language_model(
        inputs_embeds=embeds,
        attention_mask=full.long(),
        position_ids=(full.long().cumsum(-1) - 1).clamp_min(0),
        use_cache=False,
    )
    logits = core.generation_head(out.last_hidden_state[:, ids.shape[1] - 1 :])
    return cross_entropy(logits.float().flatten(0, 1), codes.flatten())


def draw_batch(
    model: JanusForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    photographs: Photographs,
    generator: torch.Generator,
    unconditional_share: float,
) -> tuple[list[list[int]], Int[Tensor, "B P"]]:
    """Prompt id rows and codes of random tinted photographs."""
    index = torch.randint(len(photographs.grey), (BATCH,), generator=generator)
    colour, background = draw_colours(BATCH, generator)
    dropped = torch.rand(BATCH, generator=generator) < unconditional_share
    garment = photographs.garment[index]
    rows = []
    for g, c, b, drop in zip(*(t.tolist() for t in (garment, colour, background, dropped)), strict=True):
        ids = prompt_ids(tokenizer, caption(g, c, b))
        rows.append(unconditional_ids(ids, PAD_ID) if drop else ids)
    with torch.no_grad():
        codes = tokenize(model.model.vqmodel, tint(photographs.grey[index], colour, background))
    return rows, codes


def train_trunk(
    model: JanusForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    photographs: Photographs,
    stage: Stage,
) -> None:
    """Trains the trunk in place for `stage.steps` steps, from wherever `stage` was interrupted."""
    initialise(model)
    optimiser = MuonAndAdamW(model)
    core = model.model
    core.language_model.train()
    # On a CPU, plain bf16 attention took a fifth less time a step than the fused kernel, compiling a tenth.
    core.language_model.set_attn_implementation("eager")
    run_trunk = core.language_model.forward
    core.language_model.forward = torch.compile(run_trunk)
    parts = {
        "trunk": core.language_model,
        "embeddings": core.generation_embeddings,
        "aligner": core.generation_aligner,
        "head": core.generation_head,
    }
    for step in stage.resume(parts, optimiser, {}):
        stage.set_rate(optimiser, PEAK_RATE, warm_up=100, decay_from=0.4)
        with torch.autocast("cpu", torch.bfloat16):
            batch = draw_batch(
                model, tokenizer, photographs, batch_generator(stage.seed, step), UNCONDITIONAL_SHARE
            )
            loss = token_loss(model, *batch)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained_parameters(model), 1.0)
        optimiser.step()
        stage.report(step, loss=loss.item())
    core.language_model.forward = run_trunk
    core.language_model.set_attn_implementation("sdpa")
    model.eval()
