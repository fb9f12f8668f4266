"""Whether a run fits, and the smallest change that makes it fit."""

from collections.abc import Callable, Iterator

from backbones.errors import RowcastError
from data.bill import disk_of, free_bytes
from train.bill.disk import Item, missing
from train.bill.memory import PHASES, phase
from train.bill.setting import Setting

Change = tuple[str, Setting]
"""Options to write, and the setting with them."""


def check_disk(found: list[Item]) -> None:
    """Refuses what will not fit on a disk.

    Raises:
        RowcastError: naming the disk's folder, and what takes most of it.
    """
    disks: dict[int, list[Item]] = {}
    for item in found:
        place = disk_of(item.folder)
        if place is not None:
            disks.setdefault(place.stat().st_dev, []).append(item)
    for these in disks.values():
        needed, free = missing(these), free_bytes(these[0].folder)
        if free is not None and needed > free:
            most = max(these, key=lambda item: item.bytes)
            raise RowcastError(
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
        RowcastError: naming what to raise.
    """
    least, images = setting.job.trainer.batch * setting.processes, setting.job.rollouts.images
    if images < least:
        raise RowcastError(
            f"expected at least {least} rollouts, one batch of {setting.job.trainer.batch} for each of "
            f"{setting.processes} processes, found {images}: rollouts.images={least} fits"
        )


def check_memory(setting: Setting, space: int) -> None:
    """Refuses what will not fit into a device.

    Args:
        setting: of the run.
        space: bytes that tensors may take there.

    Raises:
        RowcastError: naming the phase, what dominates it, and the smallest change that fits.
    """
    over = [found for name in PHASES if (found := phase(name, setting, space)).bytes > space]
    if not over:
        return
    text = ", ".join(
        f"{found.bytes / 1e9:.1f} GB in {found.name} (most for {found.largest})" for found in over
    )
    changes = [_remedy(found.name, setting, space) for found in over]
    if all(changes):
        advice = f"{' '.join(dict.fromkeys(changes))} fits"
    else:
        advice = f"nothing smaller fits: take a device of {max(found.bytes for found in over) / 1e9:.0f} GB"
        advice += ", model.dtype=bfloat16 or a smaller model.size"
    raise RowcastError(f"expected at most {space / 1e9:.1f} GB on each device, found {text}: {advice}")


def _remedy(name: str, setting: Setting, space: int) -> str:
    """The first of the changes to a phase that makes it fit; empty if none does."""
    for text, changed in _CHANGES[name](setting):
        if phase(name, changed, space).bytes <= space:
            return text
    return ""


def _fewer_rollouts(setting: Setting) -> Iterator[Change]:
    yield from _lower(setting, "rollouts", "batch")


def _lighter_training(setting: Setting) -> Iterator[Change]:
    """What costs least first: smaller pieces, sharding where there are others to share with, fewer images."""
    trainer = setting.job.trainer
    chunk = trainer.loss_chunk // 2
    while chunk >= 1024:
        yield f"trainer.loss_chunk={chunk}", setting.changed("trainer", loss_chunk=chunk)
        chunk //= 2
    if setting.processes > 1 and trainer.strategy in ("auto", "ddp"):
        text = "trainer.strategy=deepspeed trainer.zero_stage=2"
        yield text, setting.changed("trainer", strategy="deepspeed", zero_stage=2)
    for batch in range(trainer.batch - 1, 0, -1):
        yield f"trainer.batch={batch}", setting.changed("trainer", batch=batch)
    yield "trainer.batch=1 trainer.loss_chunk=4096", setting.changed("trainer", batch=1, loss_chunk=4096)


def _fewer_paintings(setting: Setting) -> Iterator[Change]:
    for images in range(setting.job.trainer.validation_images - 1, 0, -1):
        yield f"trainer.validation_images={images}", setting.changed("trainer", validation_images=images)


def _fewer_at_once(setting: Setting) -> Iterator[Change]:
    yield from _lower(setting, "benchmark", "quality_batch")


def _lower(setting: Setting, section: str, option: str) -> Iterator[Change]:
    """Smaller values of an option, the largest first."""
    options = getattr(setting.job, section)
    for value in range((getattr(options, option) or 1) - 1, 0, -1):
        yield f"{section}.{option}={value}", setting.changed(section, **{option: value})


_CHANGES: dict[str, Callable[[Setting], Iterator[Change]]] = {
    "rollouts": _fewer_rollouts,
    "training": _lighter_training,
    "validation": _fewer_paintings,
    "benchmark": _fewer_at_once,
}
