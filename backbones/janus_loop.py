"""Janus painted by transformers' own `generate`: what correctness and speed are measured against."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import GenerationConfig, JanusForConditionalGeneration

from backbones.contract import Sampling
from backbones.janus_prompt import PromptFormat

LibraryLoop = Callable[[str, int], Int[Tensor, " P"]]
"""Paints a prompt, with a seed."""


@torch.no_grad()
def paint_by_library(
    model: JanusForConditionalGeneration,
    written: PromptFormat,
    sampling: Sampling,
    prompt: str,
    seed: int,
) -> Int[Tensor, " P"]:
    """One image's tokens, on the CPU.

    Args:
        model: the library's model, on its device.
        written: how prompts are written.
        sampling: temperature 0 is greedy.
        prompt: what to paint.
        seed: of the library's random numbers, which are torch's own.

    Raises:
        RowcastError: for a prompt that the model can't take.
    """
    ids = torch.tensor([written.ids(prompt)], device=model.device)
    model.generation_config = GenerationConfig(
        **drawing(sampling),
        guidance_scale=sampling.guidance,
        bos_token_id=ids[0, 0].item(),
        pad_token_id=written.pad,
        max_length=ids.shape[1] + model.model.vision_model.config.num_image_tokens,
        generation_kwargs={"boi_token_id": ids[0, -1].item()},
    )
    with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
        torch.manual_seed(seed)
        painted = model.generate(  # pyright: ignore[reportCallIssue, reportArgumentType]
            input_ids=ids,
            attention_mask=torch.ones_like(ids),  # pyright: ignore[reportArgumentType]
            generation_mode="image",
        )
    return painted[0].cpu()  # pyright: ignore


def drawing(sampling: Sampling) -> dict[str, Any]:
    """How the library is told to draw a token."""
    if sampling.temperature == 0:
        return {"do_sample": False}
    return {
        "do_sample": True,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k or 0,
        "top_p": sampling.top_p or 1.0,
    }
