"""The typed form of every option: the composed Hydra config is validated against these classes.

The YAML files beside this one hold the values and say what they mean; a key that is not here is refused.
"""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING


@dataclass
class Model:
    name: str = MISSING
    path: str | None = None
    revision: str | None = None
    dtype: str = "float32"
    device: str = "auto"


@dataclass
class SamplingOverrides:
    """Null means the model's official setting."""

    guidance: float | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None


@dataclass
class Rollouts:
    folder: str = MISSING
    images: int = 192
    batch: int = 32
    shard_images: int = 32
    seed: int = 0
    prompts: str | None = None


@dataclass
class Heads:
    horizontal: int = 5
    vertical: int = 2
    hidden: float = 1.0


@dataclass
class FirstRow:
    block: int = 5
    rounds: int = 1
    bonus_token: bool = False


@dataclass
class ARDecoder:
    name: str = "ar"


@dataclass
class SSDDecoder:
    name: str = "ssd"
    rounds: int = 2
    rows: int = 1
    staged_rounds: int = 0
    first_row: FirstRow = field(default_factory=FirstRow)


DECODERS: dict[str, type] = {"ar": ARDecoder, "ssd": SSDDecoder}


@dataclass
class Trainer:
    strategy: str = "auto"
    accelerator: str = "auto"
    devices: int = 1
    precision: str = "32-true"
    steps: int = 400
    batch: int = 8
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warm_up: int = 40
    clip: float = 0.5
    seed: int = 0
    validate_every: int = 100
    validation_images: int = 8
    save_every: int = 50
    loss_chunk: int = 4096


@dataclass
class Wandb:
    mode: str = "offline"
    project: str = "rowcast"


@dataclass
class Benchmark:
    decoders: list[str] = field(default_factory=lambda: ["ar", "ssd_r0", "ssd_r1", "ssd"])
    prompts: str | None = None
    images: int = 24
    quality_images: int = 128
    warm_up: int = 2
    seed: int = 1000
    quality_batch: int = 16


@dataclass
class TrainJob:
    model: Model = field(default_factory=Model)
    sampling: SamplingOverrides = field(default_factory=SamplingOverrides)
    rollouts: Rollouts = field(default_factory=Rollouts)
    heads: Heads = field(default_factory=Heads)
    trainer: Trainer = field(default_factory=Trainer)
    wandb: Wandb = field(default_factory=Wandb)
    benchmark: Benchmark = field(default_factory=Benchmark)
    folder: str = MISSING
    resume: str = "auto"


@dataclass
class DataJob:
    model: Model = field(default_factory=Model)
    sampling: SamplingOverrides = field(default_factory=SamplingOverrides)
    rollouts: Rollouts = field(default_factory=Rollouts)


@dataclass
class DecodingJob:
    model: Model = field(default_factory=Model)
    sampling: SamplingOverrides = field(default_factory=SamplingOverrides)
    decoder: Any = MISSING
    heads: str | None = None
    prompt: Any = MISSING
    num_images: int = 1
    seed: int = 0
    batch: int = 16
    out: str = MISSING


@dataclass
class EvalJob:
    model: Model = field(default_factory=Model)
    sampling: SamplingOverrides = field(default_factory=SamplingOverrides)
    benchmark: Benchmark = field(default_factory=Benchmark)
    heads: str = MISSING
    folder: str = MISSING
