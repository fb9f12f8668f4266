"""The typed form of every option: the composed Hydra config is validated against these classes.

The YAML files beside this one hold the values and say what they mean; a key that is not here is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a value must satisfy, in words and as a test."""

    text: str
    holds: Callable[[Any], bool]


def rule(text: str, holds: Callable[[Any], bool]) -> Mapping[str, Rule]:
    """Field metadata: the rule of a value that is not null."""
    return {"rule": Rule(text=text, holds=holds)}


def at_least(low: float) -> Mapping[str, Rule]:
    return rule(f"at least {low}", lambda value: value >= low)


def above(low: float) -> Mapping[str, Rule]:
    return rule(f"above {low}", lambda value: value > low)


def one_of(*names: str) -> Mapping[str, Rule]:
    return rule(f"one of {', '.join(names)}", lambda value: value in names)


def example(text: str) -> Mapping[str, str]:
    """Field metadata: what to write for an option that has no default."""
    return {"example": text}


@dataclass
class Model:
    name: str
    path: str | None
    revision: str | None
    dtype: str = field(metadata=one_of("float32", "bfloat16", "float16"))
    device: str


@dataclass
class SamplingOverrides:
    guidance: float | None = field(metadata=at_least(0))
    temperature: float | None = field(metadata=at_least(0))
    top_k: int | None = field(metadata=at_least(1))
    top_p: float | None = field(metadata=rule("above 0, at most 1", lambda value: 0 < value <= 1))


@dataclass
class Rollouts:
    folder: str
    images: int = field(metadata=at_least(1))
    batch: int = field(metadata=at_least(1))
    shard_images: int = field(metadata=at_least(1))
    seed: int = field(metadata=at_least(0))
    prompts: str | None


@dataclass
class Heads:
    horizontal: int = field(metadata=at_least(1))
    vertical: int = field(metadata=at_least(1))
    hidden: float = field(metadata=above(0))


@dataclass
class FirstRow:
    block: int = field(metadata=at_least(1))
    rounds: int = field(metadata=at_least(0))
    bonus_token: bool


@dataclass
class ARDecoder:
    name: str


@dataclass
class SSDDecoder:
    name: str
    rounds: int = field(metadata=at_least(0))
    rows: int = field(metadata=at_least(1))
    staged_rounds: int = field(metadata=at_least(0))
    first_row: FirstRow


@dataclass
class SSDExactDecoder:
    name: str
    window: int = field(metadata=at_least(1))


DECODERS: dict[str, type] = {"ar": ARDecoder, "ssd": SSDDecoder, "ssd_exact": SSDExactDecoder}
"""The options of each decoding method, by the `name` in its YAML file."""


@dataclass
class Trainer:
    strategy: str = field(metadata=one_of("auto", "ddp", "deepspeed"))
    devices: int = field(metadata=at_least(1))
    zero_stage: int = field(metadata=rule("1 or 2", lambda value: value in (1, 2)))
    precision: str = field(metadata=one_of("32-true", "bf16-mixed"))
    steps: int = field(metadata=at_least(1))
    batch: int = field(metadata=at_least(1))
    learning_rate: float = field(metadata=above(0))
    weight_decay: float = field(metadata=at_least(0))
    warm_up: int = field(metadata=at_least(0))
    clip: float = field(metadata=above(0))
    seed: int = field(metadata=at_least(0))
    validate_every: int = field(metadata=at_least(1))
    validation_images: int = field(metadata=at_least(1))
    save_every: int = field(metadata=at_least(1))
    loss_chunk: int = field(metadata=at_least(1))


@dataclass
class Wandb:
    mode: str = field(metadata=one_of("offline", "online", "disabled"))
    project: str


@dataclass
class Benchmark:
    decoders: list[str]
    prompts: str | None
    images: int = field(metadata=at_least(1))
    quality_images: int = field(metadata=at_least(0))
    warm_up: int = field(metadata=at_least(0))
    seed: int = field(metadata=at_least(0))
    quality_batch: int = field(metadata=at_least(1))


@dataclass
class TrainJob:
    model: Model
    sampling: SamplingOverrides
    rollouts: Rollouts
    heads: Heads
    trainer: Trainer
    wandb: Wandb
    benchmark: Benchmark
    folder: str
    resume: str

    def __post_init__(self) -> None:
        # YAML reads `false` as a boolean, which becomes the text "False" here.
        if self.resume == "False":
            self.resume = "false"


@dataclass
class DataJob:
    model: Model
    sampling: SamplingOverrides
    rollouts: Rollouts


@dataclass
class DecodingJob:
    model: Model
    sampling: SamplingOverrides
    decoder: Any
    """One of `DECODERS`, as a mapping with its `name`."""
    heads: str | None
    prompt: Any = field(metadata=example('prompt="a red sneaker on blue"'))
    """A prompt, a list of prompts, or the path of a text file with one a line."""
    num_images: int = field(metadata=at_least(1))
    seed: int = field(metadata=at_least(0))
    batch: int = field(metadata=at_least(1))
    out: str


@dataclass
class EvalJob:
    model: Model
    sampling: SamplingOverrides
    benchmark: Benchmark
    heads: str
    folder: str
