"""How long a run takes: by a rate that was given or measured, else the least that a device's makers allow.

The floor of a forward is the larger of two times: its weights and the cache read once, its matrix products
done at full speed. Loops that start every kernel from Python take two to four times as long.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from decoding.room import branches
from train.bill.devices import Device
from train.bill.setting import Setting
from train.source import STREAM

GIVEN, MEASURED, FLOOR, UNKNOWN = "given", "measured", "floor", "unknown"


@dataclass(frozen=True, kw_only=True)
class Duration:
    """The time of one phase."""

    name: str
    work: str
    """How much there is to do."""
    seconds: float | None
    """On the devices that do it; none if nobody knows."""
    basis: str
    """`given`, `measured`, `floor` or `unknown`."""
    why: str
    """The assumption behind it."""


def durations(
    setting: Setting,
    device: Device | None,
    batch: int,
    rates: Sequence[float | None],
    *,
    measured: bool,
) -> list[Duration]:
    """The times of rollouts and training.

    Args:
        setting: of the run.
        device: that it will be on; none if its speed is not known.
        batch: rollouts sampled at a time.
        rates: rollouts a second of one device and training steps a second; none if unknown.
        measured: whether the rates come from this machine; else the user gave them.
    """
    basis = MEASURED if measured else GIVEN
    alone = _rollouts(setting, device, batch, rates[0], basis)
    times = [alone]
    if alone.seconds is not None and setting.processes > 1:
        together = replace(alone, seconds=alone.seconds / setting.processes)
        if setting.job.data.mode == STREAM:
            times = [replace(together, work=f"{alone.work}; {setting.processes} devices beside training")]
        else:
            started = "which torchrun -m train or torchrun -m data start"
            times.append(replace(together, name="", work=f"the same on all {setting.processes}, {started}"))
    return [*times, _training(setting, device, rates[1], basis)]


def _rollouts(
    setting: Setting, device: Device | None, batch: int, rate: float | None, basis: str
) -> Duration:
    images = setting.job.rollouts.images
    work = f"{images:,} images of {setting.backbone.grid.size:,} forwards, {batch} at a time"
    work += "" if setting.job.data.mode == STREAM else ", on one device"
    if rate is not None:
        why = f"{rate:.3g} rollouts a second and device, {basis}"
        return Duration(name="rollouts", work=work, seconds=images / rate, basis=basis, why=why)
    if device is None:
        return _unknown("rollouts", work, "plan.images_per_second")
    forwards = images / batch * setting.backbone.grid.size
    seconds = forwards * forward_floor(setting, device, batch)
    return Duration(name="rollouts", work=work, seconds=seconds, basis=FLOOR, why=_floor(device))


def _training(setting: Setting, device: Device | None, rate: float | None, basis: str) -> Duration:
    steps = setting.job.trainer.steps
    epochs = steps * setting.step_images / setting.job.rollouts.images
    work = f"{steps:,} steps of {setting.step_images} images, {epochs:.3g} times through the set"
    if rate is not None:
        why = f"{rate:.3g} training steps a second, {basis}"
        return Duration(name="training", work=work, seconds=steps / rate, basis=basis, why=why)
    if device is None:
        return _unknown("training", work, "plan.steps_per_second")
    seconds = steps * setting.job.trainer.accumulate * step_floor(setting, device)
    return Duration(name="training", work=work, seconds=seconds, basis=FLOOR, why=_floor(device))


def forward_floor(setting: Setting, device: Device, images: int) -> float:
    """Seconds of one forward of plain autoregression, the cache half full."""
    foot, rows = setting.footprint, images * branches(setting.sampling)
    cache = rows * (setting.prompt + foot.slots / 2) * foot.slot
    reading = (foot.read + cache) / device.bandwidth
    return max(reading, 2 * foot.multiplied * rows / _speed(setting, device))


def step_floor(setting: Setting, device: Device) -> float:
    """Seconds of one batch of training: the backbone over whole images, the heads there and back."""
    foot, trainer = setting.footprint, setting.job.trainer
    length = setting.prompt + foot.slots
    config = setting.backbone.width * foot.layers
    backbone = setting.rows * length * (2 * foot.multiplied + 2 * length * config)
    pairs = setting.rows * setting.backbone.grid.size
    learning = [
        part for name, part in setting.heads.parts().items() if name != "correction"
    ]  # reads few pairs
    heads = 6 * pairs * sum(weight.numel() for part in learning for weight in part.parameters())
    full = device.half if trainer.precision == "bf16-mixed" else device.full
    return backbone / _speed(setting, device) + heads / full


def _speed(setting: Setting, device: Device) -> float:
    return device.full if setting.backbone.dtype.itemsize == 4 else device.half


def _unknown(name: str, work: str, option: str) -> Duration:
    return Duration(
        name=name,
        work=work,
        seconds=None,
        basis=UNKNOWN,
        why=f"unknown: say {option}=, or plan.gpu= for a floor, or plan.probe=true to measure it here",
    )


def _floor(device: Device) -> str:
    return (
        f">=: the least at {device.bandwidth / 1e12:.3g} TB/s, {device.half / 1e12:.0f} TFLOP/s in bf16 and "
        f"{device.full / 1e12:.0f} in fp32; a loop in Python takes 2 to 4 times as long"
    )
