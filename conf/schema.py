"""The typed form of every option: the composed Hydra config is validated against these classes.

The YAML files beside this one hold the values and say what they mean; a key that is not here is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backbones.rules import Rule, above, at_least, count, named, one_of, rule, seed_range, within
from decoding.options import OPTIONS
from heads.options import HEADS


def example(text: str) -> Mapping[str, str]:
    """Field metadata: what to write for an option that has no default."""
    return {"example": text}


def text_or_texts(text: str) -> Mapping[str, Rule]:
    """One text or a list of texts."""
    return rule(
        text,
        lambda value: (
            isinstance(value, str)
            or (isinstance(value, list) and all(isinstance(name, str) for name in value))
        ),
    )


def some_of(*names: str) -> Mapping[str, Rule]:
    """One name or a list of names."""
    return rule(
        f"a list out of {', '.join(names)}",
        lambda value: set([value] if isinstance(value, str) else value) <= set(names),
    )


def is_part(text: str) -> bool:
    """Whether a text names a part, `2/8`, or leaves it to the launcher."""
    part = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    return text == "auto" or (part is not None and 1 <= int(part[1]) <= int(part[2]))


def are_batches(values: list[int]) -> bool:
    """Whether a list holds batch sizes, each once."""
    return len(set(values)) == len(values) and all(1 <= value <= 1024 for value in values)


PLACE = rule("a folder, which no empty text is", lambda value: bool(value.strip()))
SET_PLACE = rule(
    "a folder or URL that outlives the process",
    lambda value: bool(value.strip()) and not value.startswith("memory://"),
)


@dataclass
class Model:
    name: str
    device: str
    dtype: str = field(metadata=one_of("float32", "bfloat16", "float16"))
    path: str | None
    revision: str | None
    weights: str = field(metadata=one_of("published", "random"))
    size: str | None
    tokenizer: str | None
    pixels: str | None
    text_encoder: str | None


@dataclass
class SamplingOverrides:
    guidance: float | None = field(metadata=rule("0 to 1000", lambda value: 0 <= value <= 1000))
    temperature: float | None = field(
        metadata=rule("0 (greedy), or 0.001 to 1000", lambda value: value == 0 or 1e-3 <= value <= 1000)
    )
    top_k: int | None = field(metadata=count(1))
    top_p: float | None = field(metadata=above(0, 1))


@dataclass
class Rollouts:
    folder: str = field(metadata=SET_PLACE)
    images: int = field(metadata=count(1, 1_000_000))
    batch: int | None = field(metadata=count(1))
    shard_images: int = field(metadata=count(1))
    seed: int = field(metadata=seed_range())
    prompts: str | None


@dataclass
class Trainer:
    strategy: str = field(metadata=one_of("auto", "ddp", "deepspeed", "fsdp2"))
    devices: int = field(metadata=count(1, 1024))
    nodes: int = field(metadata=count(1, 1024))
    zero_stage: int = field(metadata=count(1, 3))
    precision: str = field(metadata=one_of("32-true", "bf16-mixed"))
    steps: int = field(metadata=count(1))
    batch: int = field(metadata=count(1))
    accumulate: int = field(metadata=count(1))
    learning_rate: float = field(metadata=above(0))
    weight_decay: float = field(metadata=at_least(0))
    warm_up: int = field(metadata=count(0))
    clip: float = field(metadata=above(0))
    seed: int = field(metadata=seed_range())
    validate_every: int = field(metadata=count(1))
    validation_images: int = field(metadata=count(1, 10_000))
    save_every: int = field(metadata=count(1))
    loss_chunk: int = field(metadata=count(1))


@dataclass
class Data:
    mode: str = field(metadata=one_of("ids", "states", "stream"))
    cache: str = field(metadata=PLACE)
    cache_gb: float = field(metadata=above(0))
    pool_images: int = field(metadata=count(1))
    on_damage: str = field(metadata=one_of("stop", "quarantine"))


@dataclass
class Wandb:
    mode: str = field(metadata=one_of("offline", "online", "disabled"))
    project: str


@dataclass
class Benchmark:
    decoders: Any = field(metadata=text_or_texts("all, or a list of names"))
    prompts: str | None
    images: int = field(metadata=count(1, 1_000_000))
    quality_images: int = field(metadata=count(0, 1_000_000))
    warm_up: int = field(metadata=count(0))
    seed: int = field(metadata=seed_range())
    quality_batch: int | None = field(metadata=count(1))


@dataclass
class PlanOptions:
    gpu: str = field(metadata=one_of("auto", "b200", "h200", "h100", "a100", "a100_40", "l40s", "rtx4090"))
    memory_gb: float | None = field(metadata=above(0))
    images_per_second: float | None = field(metadata=above(0))
    steps_per_second: float | None = field(metadata=above(0))
    probe: bool


@dataclass
class TrainJob:
    model: Model
    sampling: SamplingOverrides
    rollouts: Rollouts
    heads: Any = field(metadata=named(HEADS))
    """One of `heads.options.HEADS`, as a mapping with its `name`."""
    start_from: str | None
    trainer: Trainer
    data: Data
    wandb: Wandb
    tensorboard: str = field(metadata=one_of("auto", "true", "false"))
    benchmark: Benchmark
    plan_only: bool
    plan: PlanOptions
    folder: str = field(metadata=PLACE)
    resume: str

    def __post_init__(self) -> None:
        # YAML reads `false` as a boolean, which becomes the text "False" here.
        if self.resume == "False":
            self.resume = "false"
        if self.tensorboard in ("True", "False"):
            self.tensorboard = self.tensorboard.lower()


@dataclass
class DataJob:
    model: Model
    sampling: SamplingOverrides
    rollouts: Rollouts


@dataclass
class DecodingJob:
    model: Model
    sampling: SamplingOverrides
    decoder: Any = field(metadata=named(OPTIONS))
    """One of `decoding.options.OPTIONS`, as a mapping with its `name`."""
    heads: str | None
    prompt: Any = field(metadata=example('prompt="a red sneaker on blue"'))
    """A prompt, a list of prompts, or the path of a text file with one a line."""
    num_images: int = field(metadata=count(1, 10_000))
    seed: int = field(metadata=seed_range())
    batch: int = field(metadata=count(1))
    size: int = field(metadata=count(1, 4096))
    out: str


@dataclass
class PromptShare:
    prompts: int | None = field(metadata=count(0))
    samples: int = field(metadata=count(1, 1000))
    path: str | None


@dataclass
class Sets:
    name: str | None
    fetch: bool
    folder: str = field(metadata=PLACE)
    smoke: PromptShare
    geneval: PromptShare
    dpg: PromptShare
    parti: PromptShare
    coco: PromptShare


@dataclass
class Scoring:
    preset: str = field(metadata=one_of("clean", "sjd", "lantern"))
    clip: str | None
    detector: str
    colours: str
    vqa: str


@dataclass
class LatencySweep:
    batches: list[int] = field(metadata=rule("batch sizes of 1 to 1024, each once", are_batches))
    rows: int = field(metadata=count(1, 1000))
    repeats: int = field(metadata=count(1, 1000))
    seconds: float = field(metadata=above(0))


@dataclass
class EvalJob:
    model: Model
    sampling: SamplingOverrides
    benchmark: Benchmark
    heads: Any = field(metadata=text_or_texts("untrained, a bundle folder, or a list of them"))
    folder: str = field(metadata=PLACE)
    sets: Sets | None = None
    """Prompt sets in place of `benchmark.prompts`, where any of them has prompts."""
    shard: str = field(default="1/1", metadata=rule("auto, or a part such as 2/8", is_part))
    baselines: str | None = None
    ladder: int = field(default=0, metadata=count(0, 1_000_000))
    scores: Any = field(default_factory=list, metadata=some_of("clip", "geneval", "dpg"))
    scoring: Scoring | None = None
    """The models behind `scores`."""
    attach: bool = False
    latency: LatencySweep | None = None
    """A sweep over batch sizes, where it has any."""


@dataclass
class ReportJob:
    folder: str = field(metadata=example("folder=outputs/pocket/eval"))


@dataclass
class CompareJob:
    before: str = field(metadata=example("before=outputs/main/eval"))
    after: str = field(metadata=example("after=outputs/pocket/eval"))
    forwards_margin: float = field(metadata=within(0, 1))


@dataclass
class DoctorJob:
    model: Model
    sampling: SamplingOverrides
    heads: str
    decoder: str | None
    prompts: str | None
    images: int = field(metadata=count(2, 1000))
    seed: int = field(metadata=seed_range())


@dataclass
class BackboneJob:
    model: Model
    prompt: str | None
    seed: int = field(metadata=seed_range())
    paint: bool
    out: str


@dataclass
class PublishJob:
    bundle: str = field(metadata=example("bundle=outputs/pocket/train/heads"))
    repo: str = field(metadata=example("repo=me/pocket-heads"))
    revision: str | None
    private: bool
    base_model: str | None
    custom_generate: bool
    dry_run: bool
    out: str


@dataclass
class InspectJob:
    bundle: str = field(metadata=example("bundle=outputs/pocket/train/heads"))


@dataclass
class VerifyJob:
    bundle: str = field(metadata=example("bundle=outputs/pocket/train/heads"))
    model: Model | None = None
    """None where no model was chosen."""
