"""A bill as people read it. GB are 10^9 bytes."""

from collections.abc import Sequence

from data.bill import free_bytes
from train.bill.disk import Item, missing
from train.bill.hours import Duration
from train.bill.memory import Phase
from train.bill.setting import Setting


def heading(setting: Setting, device: str) -> str:
    """What is planned."""
    backbone, foot = setting.backbone, setting.footprint
    return (
        f"the bill of {backbone.name}: {backbone.grid.rows}x{backbone.grid.cols} tokens, "
        f"{foot.multiplied / 1e9:.3g} billion weights in {str(backbone.dtype).removeprefix('torch.')}, "
        f"{setting.weights:,} trained; {setting.processes} x {device}; GB are 10^9 bytes"
    )


def disk_table(items: Sequence[Item]) -> str:
    """What is written, and what the disk has."""
    rows = [
        (
            item.name,
            f"{'' if item.exact else '~'}{size(item.bytes + item.passing)}",
            item.made,
        )
        for item in items
    ]
    rows.append(("in all", size(sum(item.bytes + item.passing for item in items)), "~ is an estimate"))
    folder = items[-1].folder
    free = free_bytes(folder)
    rows.append(
        ("still to write", size(missing(items)), f"{size(free or 0)} are free on the disk of {folder}")
    )
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
    rows.append(("room", size(space), f"of {size(total)}; {kept:.0%} is left to the driver and to kernels"))
    return _table("peak memory of a device", rows)


def time_table(times: Sequence[Duration]) -> str:
    """How long the phases take."""
    rows = [(time.name, _span(time), time.work) for time in times]
    reasons = "\n".join(dict.fromkeys(f"  {time.why}" for time in times))
    return f"{_table('time', rows)}\n{reasons}"


def shards_table(setting: Setting) -> str:
    """Shards and images against the processes that share them."""
    options, processes = setting.job.rollouts, setting.processes
    shards = -(-options.images // options.shard_images)
    step = setting.step_images
    rows = [
        ("shards", f"{shards:,}", f"{shards / processes:,.1f} for each of {processes} processes"),
        (
            "an epoch",
            f"{options.images // step:,} steps",
            f"{options.images % step} images are left out of each",
        ),
    ]
    return _table("shards and processes", rows)


def size(count: int) -> str:
    """Bytes in GB, of small things in MB."""
    return f"{count / 1e9:,.2f} GB" if count >= 1e8 else f"{count / 1e6:,.2f} MB"


def _span(time: Duration) -> str:
    if time.seconds is None:
        return "unknown"
    text = f"{time.seconds / 3600:,.1f} h" if time.seconds >= 3600 else f"{time.seconds / 60:,.1f} min"
    return f"{'>= ' if time.basis == 'floor' else ''}{text}"


def _table(title: str, rows: Sequence[tuple[str, str, str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    lines = [f"  {name:<{widths[0]}}  {value:>{widths[1]}}  {text}".rstrip() for name, value, text in rows]
    return "\n".join([title, *lines])
