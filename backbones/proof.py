"""What a proof about a backbone is, and the measurements that proofs share."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from backbones.contract import Backbone, Prompt
from backbones.errors import RowcastError
from backbones.source import first_line

Law = Callable[[Tensor, int], Tensor]
"""Logits `[GN, T, V]` and the number of guidance branches G to probabilities `[N, T, V]`."""

TOLERANCES = {torch.float32: 1e-3, torch.float16: 0.02, torch.bfloat16: 0.1}
"""Error of logits, as a share of their spread, up to which rounding in a dtype explains it."""
ROWS, LEAST = 4, 256
"""Rows, and tokens at least, that are sampled to prove things on."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """One line of the report."""

    expected: str
    found: str
    ok: bool | None
    """None where it could not be tested."""
    advice: str = ""
    """What to do about a failure."""
    name: str = ""
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        return {True: "ok", False: "FAILED", None: "untested"}[self.ok]


@dataclass(frozen=True, kw_only=True)
class Walk:
    """The first rows of two images, sampled token by token: what other ways to the same are held against."""

    prompts: tuple[str, str]
    prompt: Prompt
    tokens: Int[Tensor, "2 T"]
    logits: Float[Tensor, "GN T V"]
    """Entry t emits token t."""
    seconds: float
    """Of one forward."""


def timed(name: str, proof: Callable[[], Proof]) -> Proof:
    """Runs a proof. What it raises is its failure: the other proofs go on."""
    start = time.perf_counter()
    try:
        result = proof()
    except RowcastError as error:
        result = Proof(expected="an answer", found=str(error), ok=False)
    except Exception as error:
        found = f"{type(error).__name__}: {first_line(error)}"
        advice = "a defect of the adapter or of an installed library: report it with this line"
        result = Proof(expected="an answer", found=found, ok=False, advice=advice)
    return replace(result, name=name, seconds=time.perf_counter() - start)


@torch.no_grad()
def sample_rows(backbone: Backbone, law: Law, prompts: tuple[str, str], seed: int) -> Walk:
    """Samples the first rows of an image a prompt by `law`, one forward a token."""
    cols, prompt = backbone.grid.cols, backbone.encode(prompts)
    count = min(backbone.grid.size, math.ceil(max(ROWS * cols, LEAST) / cols) * cols)
    generator = torch.Generator(backbone.device).manual_seed(seed)
    start, step = time.perf_counter(), backbone.begin(prompt)
    logits, tokens = [], []
    for position in tqdm(range(count), "sampling", unit="token", leave=False, disable=None):
        logits.append(step.logits)
        tokens.append(torch.multinomial(law(step.logits, 2)[:, -1], 1, generator=generator))
        if position < count - 1:
            step = backbone.forward(tokens[-1])
    seconds = (time.perf_counter() - start) / count
    return Walk(
        prompts=prompts,
        prompt=prompt,
        tokens=torch.cat(tokens, 1),
        logits=torch.cat(logits, 1),
        seconds=seconds,
    )


def lengths_of(backbone: Backbone, prompts: Sequence[str]) -> dict[str, int]:
    """How many tokens prompts take; those that the model refuses, as too long for it, are left out."""
    lengths = {}
    for prompt in prompts:
        with suppress(RowcastError):
            lengths[prompt] = backbone.encode([prompt], guided=False).mask.shape[1]
    return lengths


@torch.no_grad()
def forward_seconds(backbone: Backbone, prompt: str, count: int = 8) -> float:
    """How long a forward of one token takes, beside an image's own prompt; mean of a few."""
    step, tokens = backbone.begin(backbone.encode([prompt])), random_codes(backbone, 1, seed=0)
    start = time.perf_counter()
    for position in range(count):
        step = backbone.forward(tokens[:, position : position + 1])
    step.logits.cpu()  # waits for the device
    return (time.perf_counter() - start) / count


def teacher_forced(backbone: Backbone, prompt: Prompt, tokens: Int[Tensor, "N T"]) -> Float[Tensor, "GN T V"]:
    """Logits that emit `tokens`, by a prefill and one block."""
    first = backbone.begin(prompt).logits
    return torch.cat([first, backbone.forward(tokens[:, :-1]).logits], 1)


def error_of(found: Float[Tensor, "GN T V"], expected: Float[Tensor, "GN T V"]) -> float:
    """Root mean square error at the worst position, as a share of the spread of the logits."""
    worst = (found - expected).square().mean(-1).max().sqrt()
    return float(worst / expected.std(-1).mean())


def whole(tokens: Int[Tensor, "N T"], size: int) -> Int[Tensor, "N P"]:
    """The first rows over and over, down to the end of the image."""
    return tokens.repeat(1, -(-size // tokens.shape[1]))[:, :size]


def random_codes(backbone: Backbone, images: int, seed: int) -> Int[Tensor, "N P"]:
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(backbone.codes, (images, backbone.grid.size), generator=generator)
    return codes.to(backbone.device)
