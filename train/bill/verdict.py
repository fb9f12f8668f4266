"""Whether a run fits, and the smallest change that makes it fit."""

from collections.abc import Callable, Iterator, Sequence
from math import ceil

from backbones.capacity import LEFT
from backbones.errors import NoRoomError
from data.bill import free_bytes
from train.bill.disk import Item, by_disk, missing
from train.bill.heads import FP32
from train.bill.memory import PHASES, Phase, phase, rollout_batch
from train.bill.setting import Setting
from train.source import STREAM

CHUNKS = (16384, 8192, 4096)
"""What trainer.loss_chunk is lowered to, the mildest first."""

Change = tuple[list[str], Setting]
"""Options to write, and the setting with them."""


def check_disk(found: Sequence[Item]) -> None:
    """Refuses what will not fit on a disk.

    Raises:
        NoRoomError: naming the disk's folder, and what takes most of it.
    """
    for these in by_disk(found):
        needed, free = missing(these), free_bytes(these[0].folder)
        if free is not None and needed > free:
            most = max(these, key=lambda item: item.bytes)
            raise NoRoomError(
                f"expected {needed / 1e9:.3g} GB free for {most.folder} and the rest there, found "
                f"{free / 1e9:.3g} GB: {_less(most, needed - free)}"
            )


def _less(most: Item, over: int) -> str:
    """The smallest change that frees `over` bytes."""
    options = {
        "rollouts": "lower rollouts.images or set rollouts.folder= on a larger disk",
        "states": f"data.cache_gb={(most.bytes - over) / 1e9:.0f} fits" if most.bytes - over >= 1e9 else "",
    }
    return options.get(most.name) or f"free {over / 1e9:.3g} GB, or set folder= on a larger disk"


def check_images(setting: Setting) -> None:
    """Refuses a set that has not one image for each process and step.

    Raises:
        NoRoomError: naming what to raise.
    """
    least, images = setting.job.trainer.batch * setting.processes, setting.job.rollouts.images
    if images < least:
        raise NoRoomError(
            f"expected at least {least} rollouts, one batch of {setting.job.trainer.batch} for each of "
            f"{setting.processes} processes, found {images}: rollouts.images={least} fits"
        )


def check_memory(setting: Setting, space: int, phases: Sequence[Phase]) -> None:
    """Refuses what will not fit into a device.

    Args:
        setting: of the run.
        space: bytes that tensors may take there.
        phases: what it needs.

    Raises:
        NoRoomError: naming the phases, what takes most of each, and the smallest change that fits.
    """
    over = [found for found in phases if found.bytes > space]
    if not over:
        return
    text = ", ".join(
        f"{found.bytes / 1e9:.1f} GB in {found.name} (most for {found.largest})" for found in over
    )
    advice = remedy([found.name for found in over], setting, space)
    if advice is None:
        half = "model.dtype=bfloat16, " if setting.backbone.dtype.itemsize == FP32 else ""
        least = ceil(least_memory(setting, space) / 1e9)
        change = (
            f"one image at a time is too much as well: take {half}a smaller model, or a device of {least} GB"
        )
    else:
        change = f"{' '.join(advice)} fits"
    raise NoRoomError(f"expected at most {space / 1e9:.1f} GB on each device, found {text}: {change}")


def least_memory(setting: Setting, space: int) -> int:
    """Bytes of the smallest device that a run fits into with one image at a time."""
    single = setting.changed("rollouts", batch=1).changed("benchmark", quality_batch=1)
    single = single.changed("trainer", batch=1, validation_images=1, loss_chunk=CHUNKS[-1])
    return round(max(phase(name, single, space).bytes for name in PHASES) / (1 - LEFT))


def remedy(names: Sequence[str], setting: Setting, space: int) -> list[str] | None:
    """The options that make phases fit, each the smallest change that is left after the ones before it."""
    advice: list[str] = []
    for name in names:
        if phase(name, setting, space).bytes <= space:
            continue  # thanks to an earlier change
        change = _training(setting, space) if name == "training" else _fewer(name, setting, space)
        if change is None:
            return None
        options, setting = change
        advice += options
    return advice


def _training(setting: Setting, space: int) -> Change | None:
    """What costs least comes first: smaller pieces, sharding, fewer images, fewer heads."""

    def fits(changed: Setting) -> bool:
        return phase("training", changed, space).bytes <= space

    if fits(setting.changed("trainer", loss_chunk=CHUNKS[-1])):
        for chunk in CHUNKS:
            smaller = setting.changed("trainer", loss_chunk=chunk)
            if chunk < setting.job.trainer.loss_chunk and fits(smaller):
                return [f"trainer.loss_chunk={chunk}"], smaller
    if setting.job.data.mode == STREAM:
        fewer = _largest(setting, "rollouts", "batch", fits, rollout_batch(setting, space) - 1)
        if fewer is not None:
            return fewer
    options: list[str] = []
    if setting.processes > 1 and setting.job.trainer.strategy in ("auto", "ddp"):
        setting = setting.changed("trainer", strategy="deepspeed", zero_stage=2)
        options = ["trainer.strategy=deepspeed", "trainer.zero_stage=2"]
        if fits(setting):
            return options, setting
    for more, smaller in _less_heads(setting):
        found = _largest(smaller, "trainer", "batch", fits, setting.job.trainer.batch)
        if found is not None:
            return [*options, *more, *found[0]], found[1]
    return None


def _less_heads(setting: Setting) -> Iterator[Change]:
    """The heads as they are, then without the part that can be left out."""
    yield [], setting
    if setting.job.heads.get("correction"):
        yield ["heads.correction=0"], setting.with_heads(correction=0)


def _fewer(name: str, setting: Setting, space: int) -> Change | None:
    """Fewer images at a time."""
    section, option = {
        "rollouts": ("rollouts", "batch"),
        "validation": ("trainer", "validation_images"),
        "benchmark": ("benchmark", "quality_batch"),
    }[name]
    high = (getattr(getattr(setting.job, section), option) or 2) - 1

    def fits(changed: Setting) -> bool:
        return phase(name, changed, space).bytes <= space

    return _largest(setting, section, option, fits, high)


def _largest(
    setting: Setting, section: str, option: str, fits: Callable[[Setting], bool], high: int
) -> Change | None:
    """The largest value of an option, up to `high`, that fits; none if not even 1 does."""
    low, best = 1, None
    while low <= high:
        middle = (low + high) // 2
        changed = setting.changed(section, **{option: middle})
        if fits(changed):
            low, best = middle + 1, ([f"{section}.{option}={middle}"], changed)
        else:
            high = middle - 1
    return best
