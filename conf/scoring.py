"""The typed form of the options of `python -m eval.scorers`; `schema.py` has those of the other programs."""

from dataclasses import dataclass, field

from backbones.rules import count, one_of, rule, within
from conf.schema import example

IMAGES = example("images=outputs/images")
DTYPES = one_of("float32", "bfloat16", "float16")
PRESETS = one_of("clean", "sjd", "lantern")


@dataclass
class GenEvalJob:
    images: str = field(metadata=IMAGES)
    out: str | None
    samples: int | None = field(metadata=count(1, 10_000))
    detector: str
    clip: str
    max_overlap: float = field(metadata=within(0, 1))
    official: str | None
    device: str
    dtype: str = field(metadata=DTYPES)
    batch: int = field(metadata=count(1))


@dataclass
class DpgJob:
    images: str | None
    questions: str = field(metadata=example("questions=dpg_bench.csv"))
    answers: str | None
    out: str | None
    tiles: int = field(metadata=rule("1 or 4", lambda value: value in (1, 4)))
    compat: str = field(metadata=one_of("fixed", "official"))
    vqa: str
    device: str
    dtype: str = field(metadata=DTYPES)


@dataclass
class ClipJob:
    images: str = field(metadata=IMAGES)
    out: str | None
    preset: str = field(metadata=PRESETS)
    clip: str | None
    device: str
    dtype: str = field(metadata=DTYPES)
    batch: int = field(metadata=count(1))


@dataclass
class FidJob:
    images: str = field(metadata=IMAGES)
    reference: str = field(metadata=example("reference=val2017"))
    inception: str = field(metadata=example("inception=pt_inception-2015-12-05-6726825d.pth"))
    out: str | None
    preset: str = field(metadata=PRESETS)
    device: str
    dtype: str = field(metadata=DTYPES)
    batch: int = field(metadata=count(1))
