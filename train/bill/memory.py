"""Peak memory of each phase of a run on one device, and what it is made of."""

from dataclasses import dataclass
from math import ceil

from data.rollout import MOST
from train.bill.heads import FP32, harvest_peak, learning_peak
from train.bill.setting import Setting
from train.source import STREAM
from train.strategy import BUCKET

MOMENTS = 2
QUALITY_AT_MOST = 16
"""Images at a time where the option is null; the benchmark's own rule."""
PHASES = ("rollouts", "training", "validation", "benchmark")


@dataclass(frozen=True, kw_only=True)
class Phase:
    """What one device holds at the worst moment of a phase."""

    name: str
    parts: dict[str, int]
    """Bytes by what they are for."""

    @property
    def bytes(self) -> int:
        """All of it."""
        return sum(self.parts.values())

    @property
    def largest(self) -> str:
        """What takes most."""
        return max(self.parts, key=lambda name: self.parts[name])


def phase(name: str, setting: Setting, space: int) -> Phase:
    """One of `PHASES`.

    Args:
        name: which.
        setting: of the run.
        space: bytes that tensors may take on a device; it decides how many images are painted at a time.
    """
    if name == "training":
        return Phase(name=name, parts=_training(setting, space))
    if name == "validation":
        return Phase(name=name, parts=_validation(setting))
    if name == "benchmark":
        return Phase(name=name, parts=_benchmark(setting, space))
    images = rollout_batch(setting, space)
    painted = images * setting.sampled.image
    return Phase(name=name, parts={"backbone": setting.footprint.weights, _images(images): painted})


def rollout_batch(setting: Setting, space: int) -> int:
    """Images that are sampled at a time: the option, or as many as fit, of a stream beside training."""
    rollouts, data = setting.job.rollouts, setting.job.data
    if rollouts.batch is not None:
        return rollouts.batch
    most, held = min(MOST, rollouts.images), setting.footprint.weights
    if data.mode == STREAM:
        most, held = min(most, max(1, data.pool_images // 2)), sum(_step(setting).values())
    return max(1, min(most, (space - held) // setting.sampled.image))


def trained(setting: Setting) -> dict[str, int]:
    """Bytes of what is trained on one device, between steps: weights, gradients, moments."""
    trainer, count = setting.job.trainer, setting.processes
    stage = {"deepspeed": trainer.zero_stage, "fsdp2": 3}.get(trainer.strategy, 0)
    whole = FP32 * setting.weights
    part = ceil(whole / count)
    parts = {
        "heads": part if stage == 3 else whole,
        "gradients": part if stage >= 2 else whole,
        "optimiser": MOMENTS * (part if stage else whole),
    }
    if stage == 3:
        # Those that compute are gathered whole, one part at a time; validation paints with a whole copy.
        parts["heads"] += FP32 * setting.largest_part + whole
    if trainer.strategy == "deepspeed":
        parts["optimiser"] += part  # its own copy of the weights
        parts["gradients"] += FP32 * min(BUCKET, setting.weights)
    elif not stage and count > 1:
        parts["gradients"] += whole  # the buckets of DDP
    return parts


def _step(setting: Setting) -> dict[str, int]:
    """The worst moment of a step: harvest, or the heads' backward pass, or the optimiser."""
    held = trained(setting)
    gradients = held.pop("gradients")
    harvest, kept = harvest_peak(setting)
    # With accumulation, gradients of earlier batches wait; else the backward pass makes them.
    waiting = gradients if setting.job.trainer.accumulate > 1 else 0
    activations = max(learning_peak(setting) - FP32 * setting.weights, 0)
    roots = held["optimiser"] // MOMENTS  # of the second moments, all at once on a GPU
    moments = [
        {"gradients": waiting, "harvest": harvest},
        {"gradients": gradients, "states and cache": kept, "activations": activations},
        {"gradients": gradients, "states and cache": kept, "the optimiser's step": roots},
    ]
    worst = max(moments, key=lambda parts: sum(parts.values()))
    return {"backbone": setting.footprint.weights, **held, **worst}


def _training(setting: Setting, space: int) -> dict[str, int]:
    """A step; of a stream beside the sampling of a batch, which a thread does at the same time."""
    parts = _step(setting)
    if setting.job.data.mode == STREAM:
        images = rollout_batch(setting, space)
        parts[f"sampling {_images(images)}"] = images * setting.sampled.image
    return parts


def _validation(setting: Setting) -> dict[str, int]:
    """Paints while all that is trained stays."""
    held, images = sum(trained(setting).values()), setting.job.trainer.validation_images
    single = setting.drafted
    painted = max(images * single.image, images * single.open + setting.pixels.work(images))
    return {"backbone": setting.footprint.weights, "heads and optimiser": held, _images(images): painted}


def _benchmark(setting: Setting, space: int) -> dict[str, int]:
    """Paints in batches; pixels are made for the report, one image at a time."""
    heads, options = FP32 * setting.weights, setting.job.benchmark
    images = options.quality_batch or QUALITY_AT_MOST
    if options.quality_batch is None:
        images = min(images, (space - setting.footprint.weights - heads) // setting.drafted.image)
    images = max(1, min(images, options.quality_images or 1))
    painted = max(images * setting.drafted.image, setting.pixels.first)
    return {"backbone": setting.footprint.weights, "heads": heads, _images(images): painted}


def _images(count: int) -> str:
    return "1 image" if count == 1 else f"{count} images"
