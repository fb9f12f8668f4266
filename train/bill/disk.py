"""Bytes on disk of everything a run writes, and how much room there is."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conf.decoders import decoder_names
from data.bill import occupied, rollout_bytes
from data.cache import GB
from data.reading import DRAWS
from train import run
from train.bill.heads import places
from train.bill.setting import Setting
from train.loggers import FILE
from train.meter import LOG_EVERY
from train.saving import KEPT
from train.source import STATE, STATES

ENTRY = 900
"""Bytes of a weight's names and headers in a checkpoint."""
LOGGED = 52
"""Bytes of a line of metrics.csv, and as much again for wandb's own file."""
PACKED = 0.6
"""Of a PNG, to its pixels."""
STRIPS = 3
"""Rows of a validation sheet: plain sampling and two decoders."""
RECORD = 700
"""Bytes of a line of the benchmark's log, beside the tokens."""


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


def items(setting: Setting) -> list[Item]:
    """Everything that a run from the start leaves on disk."""
    folder = Path(setting.job.folder)
    checkpoint, heads = checkpoint_bytes(setting), 4 * setting.weights
    found = [*rollout_items(setting)]
    if setting.job.data.mode == STATES:
        found.append(_states(setting))
    found += [
        Item(
            name="checkpoints",
            folder=str(folder / run.CHECKPOINTS),
            bytes=KEPT * checkpoint,
            passing=checkpoint,
            made=f"{KEPT} kept, one being written, {checkpoint / 1e9:.3g} GB each",
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


def missing(found: Sequence[Item]) -> int:
    """Bytes that are still to be written, at the worst moment."""
    folders = {item.folder for item in found}
    wanted = sum(item.bytes + item.passing for item in found)
    return max(0, wanted - sum(occupied(folder) for folder in folders))


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
    text = f"{image / 1e6:.3g} MB an image, {whole / 1e9:,.1f} GB for all; at most data.cache_gb={data.cache_gb:g}"
    return Item(name="states", folder=data.cache, bytes=min(cap, whole), exact=False, made=text)


def _metrics(setting: Setting, folder: Path) -> Item:
    trainer = setting.job.trainer
    losses = len(setting.heads.labels) + 4
    lines = trainer.steps // LOG_EVERY * losses + trainer.steps // trainer.validate_every * 4 * losses
    return Item(name="metrics", folder=str(folder / FILE), bytes=2 * LOGGED * lines, exact=False)


def _sheets(setting: Setting, folder: Path) -> Item:
    trainer, grid = setting.job.trainer, setting.backbone.grid
    times = trainer.steps // trainer.validate_every + 1
    pixels = _pixels(setting) * STRIPS * trainer.validation_images
    text = f"{times} of {trainer.validation_images} images"
    tokens = 4 * trainer.validation_images * grid.size
    size = round(PACKED * 3 * pixels) * times + tokens
    return Item(
        name="validation sheets", folder=str(folder / run.VALIDATION), bytes=size, exact=False, made=text
    )


def _samples(setting: Setting, folder: Path) -> Item:
    """The benchmark's log: every image with its tokens, and the places that were changed."""
    options, backbone = setting.job.benchmark, setting.backbone
    decoders = len(decoder_names(options.decoders))
    images = decoders * max(options.images, options.quality_images) + options.quality_images
    token = len(str(backbone.codes - 1)) + 1
    place = len(str(backbone.grid.size)) + 1
    size = images * (RECORD + backbone.grid.size * (token + place // 2))
    text = f"{images:,} images of {decoders} decoders"
    return Item(name="benchmark", folder=str(folder / run.BENCHMARK), bytes=size, exact=False, made=text)


def _pixels(setting: Setting) -> int:
    """Pixels of an image."""
    return setting.pixels.height * setting.pixels.width
