"""The results of a benchmark in typed form, and `results.json`: its stable, versioned JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from backbones.contract import Grid, Sampling
from backbones.durable import write_durably
from backbones.errors import RowcastError
from eval.environment import Environment
from eval.heads import HeadsSubject
from eval.passes import Plan
from eval.statistics import Interval, Spread

SCHEMA = 2

DEFINITIONS = {
    "forwards": "trunk calls per image, prefill included; a guidance pair is one call",
    "step_compression": "forwards of the baseline divided by forwards of the decoder, means over images",
    "latency": "seconds from prompt to tokens, one image at a time, pixels not included",
    "speedup": "geometric mean over prompts of baseline latency / decoder latency for the same prompt",
    "engine_ratio": "decoding time / time inside trunk calls, both summed over the timed images",
    "acceptance": "accepted / examined drafts in the first round, pooled over images, by head",
    "changed": "tokens replaced / tokens judged in each round, pooled over images; map: share of images",
    "nll": "negative log-likelihood per token in nats under the backbone, guided law before top-k and top-p",
    "nll_conditional": "the same under the conditional law alone",
    "nll_delta": "nll minus the baseline's, paired by prompt",
    "frechet_ar": "squared Fréchet distance to the baseline's images of a second seed, in the leading 64 "
    "principal directions of tokenizer features; biased by the set size, so the baseline's own is its zero",
    "frechet_real": "the same to held-out real photographs, equal set sizes",
    "garment, colour, background": "share of images that show what the prompt names, Wilson interval",
}


@dataclass(frozen=True, kw_only=True)
class ChangedRound:
    """What one verification round replaced."""

    fraction: float
    map: list[list[float]]
    """Share of images in which each grid cell was replaced."""


@dataclass(frozen=True, kw_only=True)
class Frechet:
    """A Fréchet distance between two sets of `n` images each."""

    value: float
    n: int


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Quality of one set of images; what needs a judge is none where the backbone has none."""

    images: int
    nll: Interval
    nll_conditional: Interval
    nll_delta: Interval
    frechet_ar: Frechet | None
    frechet_real: Frechet | None
    garment: Interval | None
    colour: Interval | None
    background: Interval | None


@dataclass(frozen=True, kw_only=True)
class DecoderResult:
    """Speed and quality of one decoder."""

    name: str
    lossless: bool
    options: Mapping[str, object]
    forwards: float
    step_compression: float
    latency: Spread
    speedup: Interval
    seconds: dict[str, float]
    """Mean seconds per timed image by phase."""
    engine_ratio: float
    acceptance: dict[str, tuple[int, int]]
    changed: list[ChangedRound]
    quality: Quality | None


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The generator and the heads that were measured."""

    backbone: str
    fingerprint: str
    grid: Grid
    codes: int
    heads: dict[str, HeadsSubject]
    """By kind."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """Everything the table, the report and the model card print."""

    command: str
    created: str
    contract: str
    subject: Subject
    sampling: Sampling
    plan: Plan
    environment: Environment
    sessions: int
    """Starts of the benchmark over which the timed images spread; 1 is the cleanest."""
    baseline: str
    decoders: list[DecoderResult]
    control: Quality | None
    """The baseline's images of the second seed, judged like a decoder: what chance alone does."""


def write_results(results: Results, path: Path) -> None:
    """Writes `results.json`, all or nothing.

    Raises:
        RowcastError: if the file cannot be written.
    """
    whole = {"schema": SCHEMA, "definitions": DEFINITIONS, **asdict(results)}
    write_text(path, json.dumps(whole, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replaces `path` by `text` in one step, so that a reader or a kill never meets half a file."""
    try:
        write_durably(path, text)
    except OSError as error:
        raise RowcastError(
            f"expected to write {path}, found: {error.strerror}: free space or set folder=..., "
            "then run the same command again"
        ) from None
