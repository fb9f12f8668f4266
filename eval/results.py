"""The results of a benchmark in typed form, and `results.json`: its stable, versioned JSON.

Together with the log it is all that a report is made of (`eval/rendering.py`).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from backbones.contract import Grid, Sampling
from backbones.durable import write_durably
from backbones.errors import RowcastError
from eval.bench import Plan
from eval.environment import Environment
from eval.heads import HeadsSubject
from eval.latency.figures import MEANING, Latency
from eval.paired import Delta
from eval.statistics import Interval, Spread
from eval.typed_json import read_typed

SCHEMA = 4
RESULTS_FILE = "results.json"

DEFINITIONS = {
    "forwards": "trunk calls per image, prefill included; a guidance pair is one call",
    "step_compression": "forwards of the baseline divided by forwards of the decoder, means over images",
    "latency": "seconds from prompt to tokens, one image at a time, pixels not included",
    "speedup": "geometric mean over prompts of baseline latency / decoder latency for the same prompt",
    "engine_ratio": "decoding time / time inside trunk calls, both summed over the timed images",
    "acceptance": "accepted / examined drafts in the first round, pooled over images, by head",
    "changed": "tokens replaced / tokens judged in each round, pooled over images",
    "nll": "negative log-likelihood per token in nats under the backbone, guided law before top-k and top-p",
    "nll_conditional": "the same under the conditional law alone",
    "delta, nll_delta": "minus the baseline's, paired by prompt; 95 % bootstrap interval over prompts within "
    "categories",
    "detectable": "the true difference that this comparison would find in four of five repetitions",
    "equivalent": "two one-sided tests at 5 % place the difference inside the margin; not equivalent does "
    "not mean different",
    "frechet_ar": "squared Fréchet distance to the baseline's images of a second seed, in the leading 64 "
    "principal directions of tokenizer features; biased by the set size, so the baseline's own is its zero",
    "frechet_real": "the same to held-out real photographs, equal set sizes",
    "garment, colour, background": "share of images that show what the prompt names",
    "ladder": "geometric means over prompts of paired latencies: the model's own library over our "
    "autoregression (loop gain), that over the decoder (speculation gain), and both together",
    **MEANING,
}


@dataclass(frozen=True, kw_only=True)
class Frechet:
    """A Fréchet distance between two sets of `n` images each."""

    value: float
    n: int


@dataclass(frozen=True, kw_only=True)
class Score:
    """One column of one decoder."""

    value: Interval
    delta: Delta
    """Minus the baseline's."""


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Quality of one set of images."""

    images: int
    nll: Interval
    nll_conditional: Interval
    nll_delta: Delta
    frechet_ar: Frechet | None
    frechet_real: Frechet | None
    """None where the backbone has no judge."""
    scores: dict[str, Score]
    """Further columns by name (`eval/columns.py`)."""


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
    changed: list[float]
    """Share of the judged tokens that each round replaced."""
    quality: Quality | None


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One decoder on the ladder: how much of its gain over the library's loop is our loop's."""

    name: str
    latency: Spread
    speculation: Interval
    """Our autoregression over this decoder: the gain that is the method's."""
    total: Interval
    """The library's loop over this decoder."""


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """Library's loop, our autoregression, our decoders, on the same prompts, interleaved."""

    loop: str
    """What the reference is."""
    images: int
    reference: Spread
    baseline: Spread
    loop_gain: Interval
    """The library's loop over our autoregression."""
    rungs: list[Rung]


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
class PromptSource:
    """Where prompts of the benchmark came from."""

    name: str
    prompts: int
    images: int
    """Per decoder, of the quality sets."""
    file: str | None
    """sha256 of the file, where the set is one."""


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One prompt and the files of what every decoder made of it, relative to `results.json`."""

    prompt: str
    pictures: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Results:
    """Everything the table, the report and the model card print."""

    command: str
    created: str
    contract: str
    suite: str | None
    prompts: list[PromptSource]
    subject: Subject
    untrained: list[str]
    """What of it has random weights, to be timed alone: `weights`, `heads`."""
    sampling: Sampling
    plan: Plan
    environment: Environment
    sessions: int
    """Starts of the benchmark over which the timed images spread; 1 is the cleanest."""
    processes: int
    """Processes that shared the images."""
    baseline: str
    decoders: list[DecoderResult]
    control: Quality | None
    """The baseline's images of the second seed, judged like a decoder: what chance alone does."""
    ladder: Ladder | None
    latency: Latency | None
    """The sweep over batch sizes, where there was one."""
    gallery: list[Exhibit]


def write_results(results: Results, path: Path) -> None:
    """Writes `results.json`, all or nothing.

    Raises:
        RowcastError: if the file cannot be written.
    """
    whole = {"schema": SCHEMA, "definitions": DEFINITIONS, **asdict(results)}
    write_text(path, json.dumps(whole, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def read_results(folder: Path) -> Results:
    """The results in a benchmark's folder.

    Raises:
        RowcastError: if there are none, or of another schema, or they are damaged.
    """
    path = folder / RESULTS_FILE
    try:
        whole = json.loads(path.read_text())
        schema = whole.pop("schema")
        whole.pop("definitions")
    except OSError as error:
        raise RowcastError(
            f"expected the results of a benchmark at {path}, found: {error.strerror}; run python -m eval "
            f"folder={folder}"
        ) from None
    except (ValueError, KeyError, AttributeError):
        raise RowcastError(
            f"expected results of a benchmark in {path}, found other content: measure again with "
            f"python -m eval folder={folder}"
        ) from None
    if schema != SCHEMA:
        raise RowcastError(
            f"expected results of schema {SCHEMA} in {path}, found {schema!r}: measure again with "
            f"python -m eval folder={folder}"
        )
    return read_typed(Results, whole, str(path))


def write_text(path: Path, text: str) -> None:
    """Replaces `path` by `text` in one step, so that a reader or a kill never meets half a file."""
    try:
        write_durably(path, text)
    except OSError as error:
        raise RowcastError(
            f"expected to write {path}, found: {error.strerror}: free space or set folder=..., "
            "then run the same command again"
        ) from None
