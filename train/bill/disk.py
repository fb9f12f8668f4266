"""Bytes on disk of everything a run writes, and how much room there is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from conf.decoders import decoder_names
from data.bill import disk_of, occupied, rollout_bytes
from data.cache import GB
from data.reading import DRAWS
from train import run
from train.bill.heads import FP32, places
from train.bill.setting import Setting
from train.loggers import FILE
from train.meter import LOG_EVERY
from train.saving import KEPT, checkpoint_name
from train.source import STATE, STATES

ENTRY = 900
"""Bytes of a weight's names and headers in a checkpoint."""
CARD = 40_000
"""Bytes of a bundle beside its weights: card, facts, results."""
LINE = 36
"""Bytes of a line of metrics.csv."""
FIGURES = 12
"""Figures of a logged step beside the losses; a validation has half as many for each label."""
SESSION = 100_000
"""Bytes of wandb's own files, beside the figures and a copy of each sheet."""
PACKED = 0.6
"""Of a PNG, to its pixels."""
STRIPS = 3
"""Rows of a validation sheet: plain sampling and two decoders."""
RECORD = 700
"""Bytes of a line of the benchmark's log, beside the tokens."""
PAGE = 120_000
"""Bytes of a report and its figures, beside the pictures."""
SHOWN, THUMBNAIL = 12, 15_000
"""Pictures of a decoder in a report, and the most that one takes; the page holds each once more."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing that a run writes."""

    name: str
    folder: str
    bytes: int
    """What it leaves."""
    passing: int = 0
    """What it needs for a while on top."""
    exact: bool = True
    """Whether the bytes follow from the options; else they are an estimate."""
    made: str = ""
    """What it consists of."""
    anew: bool = False
    """Whether what lies in the folder is moved aside first."""


def items(setting: Setting) -> list[Item]:
    """Everything that a run from the start leaves on disk."""
    folder = Path(setting.job.folder)
    checkpoint, heads = checkpoint_bytes(setting), FP32 * setting.weights + CARD
    done = folder / run.CHECKPOINTS / checkpoint_name(setting.job.trainer.steps)
    found = [*rollout_items(setting)]
    if setting.job.data.mode == STATES:
        found.append(_states(setting))
    found += [
        Item(
            name="checkpoints",
            folder=str(folder / run.CHECKPOINTS),
            bytes=KEPT * checkpoint,
            passing=0 if done.exists() else checkpoint,
            made=f"{KEPT} kept and one being written, {checkpoint:,} bytes each",
        ),
        Item(
            name="heads",
            folder=str(folder / run.HEADS),
            bytes=heads,
            made=f"{setting.weights:,} weights in fp32",
        ),
        _metrics(setting, folder),
        _sheets(setting, folder),
        _samples(setting, folder),
    ]
    if setting.job.wandb.mode != "disabled":
        found.append(_wandb(setting, folder))
    if setting.job.resume == run.ANEW:
        found = [replace(item, anew=Path(item.folder).is_relative_to(folder)) for item in found]
    return found


def rollout_items(setting: Setting) -> list[Item]:
    """The set of rollouts."""
    options, backbone = setting.job.rollouts, setting.backbone
    made = rollout_bytes(
        setting.prompts,
        images=options.images,
        shard_images=options.shard_images,
        seed=options.seed,
        grid=backbone.grid,
        sampling=setting.sampling,
    )
    folder, shards = options.folder, -(-options.images // options.shard_images)
    text = f"{shards:,} shards of {options.shard_images} images, {backbone.grid.size:,} tokens each"
    return [
        Item(name="rollouts", folder=folder, bytes=made.shards, made=text),
        Item(name="their manifest", folder=folder, bytes=made.manifest),
    ]


def checkpoint_bytes(setting: Setting) -> int:
    """One checkpoint."""
    return STATE * setting.weights + ENTRY * len(list(setting.heads.parameters()))


def by_disk(found: Iterable[Item]) -> list[list[Item]]:
    """Those on a disk of this machine, together with the others on it."""
    disks: dict[int, list[Item]] = {}
    for item in found:
        place = disk_of(item.folder)
        if place is not None:
            disks.setdefault(place.stat().st_dev, []).append(item)
    return list(disks.values())


def missing(found: Sequence[Item]) -> int:
    """Bytes that are still to be written, at the worst moment."""
    wanted: dict[str, int] = {}
    for item in found:
        wanted[item.folder] = wanted.get(item.folder, 0) + item.bytes + item.passing
    there = {item.folder: 0 if item.anew else occupied(item.folder) for item in found}
    return sum(max(0, size - there[folder]) for folder, size in wanted.items())


def state_bytes(setting: Setting) -> int:
    """What the cache keeps of one image: its states, and those of its siblings for each draw."""
    backbone = setting.backbone
    place = setting.branches * backbone.width * backbone.dtype.itemsize
    count = backbone.grid.size
    if setting.heads.reads_siblings:
        count += DRAWS * places(setting)
    return count * place


def _states(setting: Setting) -> Item:
    data = setting.job.data
    image, cap = state_bytes(setting), round(data.cache_gb * GB)
    whole = setting.job.rollouts.images * image
    text = f"{image / 1e6:.3g} MB an image, {whole / 1e9:,.1f} GB for all of them"
    return Item(name="states", folder=data.cache, bytes=min(cap, whole), exact=False, made=text)


def _metrics(setting: Setting, folder: Path) -> Item:
    size = LINE * _figures(setting)
    return Item(name="metrics", folder=str(folder / FILE), bytes=size, exact=False)


def _figures(setting: Setting) -> int:
    """Lines of metrics.csv."""
    trainer, labels = setting.job.trainer, len(setting.heads.labels)
    logged = -(-trainer.steps // LOG_EVERY) * (labels + FIGURES)
    return logged + _validations(setting) * (labels * FIGURES // 2 + 2 * trainer.validation_images)


def _validations(setting: Setting) -> int:
    """The first, those in between, the last."""
    return -(-setting.job.trainer.steps // setting.job.trainer.validate_every) + 1


def _wandb(setting: Setting, folder: Path) -> Item:
    size = SESSION + LINE * _figures(setting) + _sheets(setting, folder).bytes
    return Item(name="wandb", folder=str(folder / "wandb"), bytes=size, exact=False)


def _sheets(setting: Setting, folder: Path) -> Item:
    trainer, grid, times = setting.job.trainer, setting.backbone.grid, _validations(setting)
    pixels = _pixels(setting) * STRIPS * trainer.validation_images
    text = f"{times} of {trainer.validation_images} images"
    size = round(PACKED * 3 * pixels) * times + 4 * trainer.validation_images * grid.size
    return Item(
        name="validation sheets", folder=str(folder / run.VALIDATION), bytes=size, exact=False, made=text
    )


def _samples(setting: Setting, folder: Path) -> Item:
    """The benchmark's log, where every image has its tokens and the places that were changed; its page."""
    options, backbone = setting.job.benchmark, setting.backbone
    decoders = len(decoder_names(options.decoders))
    images = decoders * max(options.images, options.quality_images) + options.quality_images
    token, place = (len(str(most - 1)) + 1 for most in (backbone.codes, backbone.grid.size))
    log = images * (RECORD + backbone.grid.size * (token + place // 2))
    picture = min(THUMBNAIL, round(PACKED * 3 * _pixels(setting)))
    pictures = decoders * min(SHOWN, options.images) * picture
    text = f"{images:,} images of {decoders} decoders"
    size = log + PAGE + round(7 / 3 * pictures)  # on the page in base 64
    return Item(name="benchmark", folder=str(folder / run.BENCHMARK), bytes=size, exact=False, made=text)


def _pixels(setting: Setting) -> int:
    """Pixels of an image."""
    return setting.pixels.height * setting.pixels.width
