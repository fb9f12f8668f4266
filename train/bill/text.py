"""A bill as people read it. GB are 10^9 bytes."""

from collections.abc import Sequence

from data.bill import free_bytes
from train.bill.disk import Item, by_disk, missing
from train.bill.hours import Duration
from train.bill.memory import Phase
from train.bill.setting import Setting


def heading(setting: Setting, device: str) -> str:
    """What is planned."""
    backbone, foot = setting.backbone, setting.footprint
    count = setting.processes
    return (
        f"the bill of {backbone.name} on {count} x {device} (GB are 10^9 bytes)\n"
        f"  {backbone.grid.rows}x{backbone.grid.cols} tokens an image, {_count(foot.multiplied)} frozen "
        f"weights in {str(backbone.dtype).removeprefix('torch.')}, {_count(setting.weights)} trained in fp32"
    )


def disk_table(items: Sequence[Item]) -> str:
    """What is written, and what the disks have."""
    rows = [(item.name, _about(item), item.made) for item in items]
    rows.append(("in all", size(sum(item.bytes + item.passing for item in items)), "~ is an estimate"))
    for these in by_disk(items):
        # Named by what takes most of it.
        folder = max(these, key=lambda item: item.bytes).folder
        text = f"of {size(free_bytes(folder) or 0)} free on the disk of {folder}"
        rows.append(("still to write", size(missing(these)), text))
    return _table("disk", rows)


def memory_table(phases: Sequence[Phase], space: int, total: int) -> str:
    """What each phase holds on one device at its worst moment."""
    rows = [
        (
            found.name,
            size(found.bytes),
            " + ".join(f"{name} {size(count)}" for name, count in found.parts.items() if count),
        )
        for found in phases
    ]
    kept = 1 - space / total
    text = f"of the {size(total)} of a device; {kept:.0%} is left to the driver and to kernels"
    rows.append(("there is", size(space), text))
    return _table("peak memory of a device", rows)


def time_table(times: Sequence[Duration]) -> str:
    """How long the phases take."""
    rows = [(time.name, _span(time), time.work) for time in times]
    reasons = "\n".join(dict.fromkeys(f"  {time.why}" for time in times))
    uncounted = "  what validation and the benchmark paint comes on top"
    return f"{_table('time', rows)}\n{reasons}\n{uncounted}"


def shards_table(setting: Setting) -> str:
    """Shards and images against the processes that share them."""
    options, processes = setting.job.rollouts, setting.processes
    shards = -(-options.images // options.shard_images)
    together = setting.job.trainer.batch * processes
    steps, rest = options.images / setting.step_images, options.images % together
    rows = [
        ("shards", f"{shards:,}", f"{shards / processes:,.1f} for each of {processes} processes"),
        (
            "an epoch",
            f"{steps:,.0f} steps",
            f"of {setting.step_images} images" + (f"; {rest} are left out of each" if rest else ""),
        ),
    ]
    return _table("shards and processes", rows)


def size(count: int) -> str:
    """Bytes in GB, of smaller things in MB or kB."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if count >= 0.1 * unit:
            return f"{count / unit:,.2f} {name}"
    return f"{count / 1e3:,.2f} kB"


def _about(item: Item) -> str:
    return f"{'' if item.exact else '~'}{size(item.bytes + item.passing)}"


def _count(weights: int) -> str:
    """Weights in words."""
    return f"{weights / 1e9:.3g} billion" if weights >= 1e9 else f"{weights / 1e6:.3g} million"


def _span(time: Duration) -> str:
    if time.seconds is None:
        return "unknown"
    text = f"{time.seconds / 3600:,.1f} h" if time.seconds >= 3600 else f"{time.seconds / 60:,.1f} min"
    return f"{'>= ' if time.basis == 'floor' else ''}{text}"


def _table(title: str, rows: Sequence[tuple[str, str, str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    lines = [f"  {name:<{widths[0]}}  {value:>{widths[1]}}  {text}".rstrip() for name, value, text in rows]
    return "\n".join([title, *lines])
