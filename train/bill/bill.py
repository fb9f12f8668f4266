"""The bill of a run: printed on demand, and checked without a word before every run."""

from collections.abc import Sequence
from dataclasses import asdict

from backbones.capacity import LEFT, total
from backbones.contract import Backbone
from backbones.errors import RowcastError
from backbones.footprint import without_values
from backbones.foresight import foresight, reason
from backbones.registry import device_of, load_backbone
from backbones.source import on_disk
from conf.schema import TrainJob
from data.rollout import MOST
from train.bill import text
from train.bill.devices import DEVICES, here
from train.bill.disk import Item, items
from train.bill.hours import durations
from train.bill.memory import PHASES, Phase, phase, rollout_batch
from train.bill.probe import sampling_rate, training_rate
from train.bill.setting import Setting, published
from train.bill.verdict import check_disk, check_images, check_memory

AUTO = "auto"


def print_bill(job: TrainJob) -> None:
    """Prints what a run would take; nothing is made or trained.

    Raises:
        RowcastError: if it will not fit, after the bill; if there is no bill for such a model.
    """
    try:
        _print(job)
    except RowcastError:
        raise
    except Exception as error:  # the same that warns before a run
        raise RowcastError(
            f"expected a bill of model={job.model.name}, found {reason(error)}: run without plan_only to go "
            "on without one"
        ) from error


def check_fit(job: TrainJob, backbone: Backbone | None = None) -> None:
    """Refuses a run that will not fit; says nothing otherwise.

    Call it before the weights are loaded, and again with the backbone: it works the first time where the
    options tell the shape of the weights, and the second time where the files do.

    Raises:
        NoRoomError: with the smallest change that fits.
    """
    own = job.model.path is not None and on_disk(job.model.path, "model.path") is not None
    if own == (backbone is None):
        return
    with foresight("the run goes on without knowing whether it fits"):
        setting = published(job, _kind(job)) if backbone is None else _loaded(job, backbone)
        space = _space(job)
        _check(setting, space, items(setting), [phase(name, setting, space) for name in PHASES])


def sampling_batch(job: TrainJob, backbone: Backbone) -> int:
    """`rollouts.batch`, or as many images as fit together, of a stream beside training."""
    images = job.rollouts.batch or MOST
    if job.rollouts.batch is None:
        with foresight(f"rollouts.batch={MOST}"):
            images = rollout_batch(_loaded(job, backbone), _space(job))
    return images


def _print(job: TrainJob) -> None:
    name = _device_name(job)
    device = None if name is None else DEVICES[name]
    setting = published(job, _kind(job))
    space, rates = _space(job), (job.plan.images_per_second, job.plan.steps_per_second)
    print(text.heading(setting, name or setting.device))
    written = items(setting)
    print(f"\n{text.disk_table(written)}", flush=True)
    found = [phase(name, setting, space) for name in PHASES]
    print(f"\n{text.memory_table(found, space, _memory(job))}", flush=True)
    if job.plan.probe:
        rates = _measured(job, setting, space)
    times = durations(setting, device, rollout_batch(setting, space), rates, measured=job.plan.probe)
    print(f"\n{text.time_table(times)}\n\n{text.shards_table(setting)}\n", flush=True)
    _check(setting, space, written, found)
    print("it fits")


def _loaded(job: TrainJob, backbone: Backbone) -> Setting:
    return Setting(job, without_values(backbone), _kind(job))


def _check(setting: Setting, space: int, written: Sequence[Item], phases: Sequence[Phase]) -> None:
    check_images(setting)
    check_disk(written)
    check_memory(setting, space, phases)


def _device_name(job: TrainJob) -> str | None:
    """The name in `DEVICES` of what the run is planned for; none for another."""
    if job.plan.gpu == AUTO:
        return here() if _kind(job) == "cuda" else None
    return job.plan.gpu


def _kind(job: TrainJob) -> str:
    """`cuda` or `cpu`: what the run is planned for."""
    if job.plan.gpu != AUTO:
        return "cuda"
    return device_of(job.model.device).type


def _space(job: TrainJob) -> int:
    """Bytes that tensors may take on one device."""
    return round(_memory(job) * (1 - LEFT))


def _memory(job: TrainJob) -> int:
    """Bytes of one device's memory, as given, as its makers say, or as this machine has it."""
    if job.plan.memory_gb is not None:
        return round(job.plan.memory_gb * 1e9)
    if job.plan.gpu != AUTO:
        return round(DEVICES[job.plan.gpu].memory)
    device = device_of(job.model.device)
    return total(device) // (job.trainer.devices if device.type == "cpu" else 1)


def _measured(job: TrainJob, setting: Setting, space: int) -> tuple[float, float]:
    """Rates of this machine: rollouts a second of one device, steps a second."""
    from heads.kinds import build_heads
    from heads.options import parse_heads

    backbone = load_backbone(**asdict(job.model))
    kind, options = parse_heads(job.heads)
    prompt = max(setting.prompts, key=len)
    return (
        sampling_rate(backbone, setting.sampling, prompt, rollout_batch(setting, space)),
        training_rate(
            backbone,
            build_heads(kind, backbone.width, options),
            prompt,
            batch=job.trainer.batch,
            guidance=setting.sampling.guidance,
            chunk=job.trainer.loss_chunk,
            seed=job.trainer.seed,
            mixed=job.trainer.precision == "bf16-mixed",
        )
        / setting.job.trainer.accumulate,
    )
