"""Measures how fast this machine samples and trains, in seconds: a few forwards, a few steps."""

import time
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from backbones.contract import Backbone, Sampling, Step
from data.reading import Reader
from data.shards import Rollout, image_key
from decoding.kernel import sample
from decoding.room import branches
from decoding.warp import Warp
from heads.contract import DraftHeads
from train.module import Batch, HeadTraining
from train.optimiser import Schedule, build_optimiser

FORWARDS, STEPS = 12, 3
BLOCK = 256
"""Tokens fed at a time on the way to a full cache."""


@torch.no_grad()
def sampling_rate(backbone: Backbone, sampling: Sampling, prompt: str, images: int) -> float:
    """Images a second: single forwards at an empty, a half full and a full cache, each with its draws."""
    size, warp = backbone.grid.size, Warp(sampling)
    rows = branches(sampling)
    count = min(FORWARDS, size // 3)
    noise = torch.rand(images, device=backbone.device)
    seconds = 0.0
    for start in (0, (size - count) // 2, size - 1 - count):
        step = backbone.begin(backbone.encode([prompt] * images, rows == 2))
        for part in torch.zeros(images, start, dtype=torch.long, device=backbone.device).split(BLOCK, 1):
            if part.shape[1]:
                step = backbone.forward(part)
        seconds += _timed(backbone, partial(_forwards, backbone, warp, noise, step, count)) / count / 3
    return images / (seconds * size)


def _forwards(backbone: Backbone, warp: Warp, noise: Float[Tensor, " N"], step: Step, count: int) -> None:
    """Draws and feeds some tokens, one after the other."""
    for _ in range(count):
        law = warp(step.logits[:, -1:], len(step.logits) // len(noise))
        step = backbone.forward(sample(law[:, 0], noise)[:, None])


def training_rate(
    backbone: Backbone,
    bank: DraftHeads,
    prompt: str,
    *,
    batch: int,
    guidance: float,
    chunk: int,
    seed: int,
    mixed: bool,
) -> float:
    """Steps a second of one device, data and bookkeeping left out; `bank` is trained by it."""
    schedule = Schedule(steps=STEPS + 2, warm_up=1, learning_rate=1e-6, weight_decay=0.0)
    reader = Reader(backbone, guidance=guidance, siblings=bank.reads_siblings, seed=seed)
    module = HeadTraining(bank, backbone, schedule, reads=reader, chunk=chunk, seed=seed, mixed=mixed)
    module.to(backbone.device)
    optimiser = build_optimiser(module, schedule)
    tokens = torch.randint(backbone.codes, (batch, backbone.grid.size), generator=torch.Generator())
    images = Batch(
        [
            Rollout(key=image_key(i), prompt=prompt, tokens=row, seed=0, sample=i)
            for i, row in enumerate(tokens)
        ],
        epoch=0,
    )

    def step() -> None:
        optimiser.zero_grad()
        module.training_step(images, 0).backward()
        optimiser.step()

    step()  # kernels are chosen and memory is taken
    return STEPS / _timed(backbone, lambda: [step() for _ in range(STEPS)])


def _timed(backbone: Backbone, work: Callable[[], object]) -> float:
    waits = backbone.device.type == "cuda"
    if waits:
        torch.cuda.synchronize(backbone.device)
    start = time.perf_counter()
    work()
    if waits:
        torch.cuda.synchronize(backbone.device)
    return time.perf_counter() - start
