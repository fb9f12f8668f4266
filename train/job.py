"""The training job: rollouts, training, a bundle. Every phase goes on where an earlier run stopped."""

import logging
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from backbones.errors import RowcastError
from backbones.registry import load_backbone, rollout_prompts
from checkpoints.bundle import load_bundle, save_bundle
from checkpoints.golden import golden
from conf.decoders import decoder_options
from conf.schema import TrainJob
from data.harvest import check_harvest
from data.processes import local_rank, process_rank
from data.rollout import make_rollouts
from data.rollouts import RolloutSet
from data.stream import Stream
from decoding.methods import build_method
from decoding.methods.method import Method
from decoding.prompts import read_prompts
from heads.contract import DraftHeads
from heads.kinds import build_heads
from heads.options import parse_heads
from train import run
from train.agreement import ElsewhereError
from train.bill.bill import check_fit, sampling_batch
from train.cluster import require_processes
from train.fit import Parts, fit
from train.learning import IMAGE_ROWS, Learning, conclude
from train.loggers import FILE, last_metrics, require_tensorboard, require_wandb_key
from train.origin import Origin, begin, origin_of
from train.saving import read_heads
from train.source import STREAM, open_stream

PHASES = 4
PAINTERS = {"ssd": ("ssd", "ssd_r0"), "mtp": ("mtp_strict", "mtp"), "eagle": ("eagle",)}
"""The decoders of validation by kind of heads; the figures of the first are on the terminal."""
CHECKED_IMAGES = 4


def train(job: TrainJob, later: Sequence[str] = ()) -> Path | None:
    """Makes rollouts, trains heads on them and writes a bundle.

    Args:
        job: the options.
        later: prompts that the benchmark will need; one that the model can't take is refused here.

    Returns:
        The bundle's folder; none in the processes of a distributed run that only help to train.

    Raises:
        RowcastError: for anything that the user can put right; what was made so far is kept.
    """
    _quieten()
    folder = Path(job.folder)
    require_processes(job.trainer.devices, job.trainer.nodes)
    if process_rank() != 0:
        with suppress(ElsewhereError):  # rank 0 tells it
            parts = _parts(job)
            fit(job, parts, _rollouts(job, parts))
        return None
    run.require_apart(folder, Path(job.rollouts.folder))
    require_wandb_key(job.wandb.mode)
    require_tensorboard(job.tensorboard)
    with run.occupied(folder):
        run.resume_point(folder, job.resume)  # refused here rather than after hours of sampling
        run.require_options(folder, job.resume, _options(job))
        check_fit(job)
        parts = _parts(job)
        check_fit(job, parts.backbone)
        for prompt in dict.fromkeys(later):
            parts.backbone.encode([prompt])
        heading(1, f"rollouts: {job.rollouts.images} images in {job.rollouts.folder}")
        rollouts = _rollouts(job, parts)
        contract = _contract(job, rollouts, parts.origin)
        run.require_origin(job.resume, contract)
        if job.resume == run.ANEW and (aside := run.set_aside(folder)):
            print(f"the earlier run in {folder} is now in {aside}")
        run.enter(folder, contract, OmegaConf.to_yaml(OmegaConf.structured(job)))
        heading(2, f"training: {job.trainer.steps} steps in {folder}")
        _print_parameters(parts)
        last = fit(job, parts, rollouts)
        print(_learning(folder, len(rollouts)).conclusion)
        heading(3, f"bundle: {folder / run.HEADS}")
        return _write_bundle(job, parts, last)


def prepare(job: TrainJob) -> tuple[Parts, RolloutSet | Stream]:
    """What a run is made of, and its images; for measuring, where a run's folder is not entered."""
    _quieten()
    parts = _parts(job)
    return parts, _rollouts(job, parts)


def _learning(folder: Path, rollouts: int) -> Learning:
    try:
        return conclude(folder, rollouts)
    except OSError as error:
        raise run.unwritable(folder, error) from error


def heading(number: int, title: str) -> None:
    """Prints the heading of a phase."""
    print(f"\n{number}/{PHASES} {title}", flush=True)


def _quieten() -> None:
    """Leaves the terminal to the job: no notices about loaders, devices and other products."""
    for name in ("lightning.pytorch", "lightning.fabric", "DeepSpeed", "compilers.C.base"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for module in ("lightning", "torch", "deepspeed"):
        warnings.filterwarnings("ignore", module=rf"{module}(\.|$)")


def _parts(job: TrainJob) -> Parts:
    """Loads the backbone and makes new heads; every option that needs the backbone is checked here."""
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank())
    backbone = load_backbone(**asdict(job.model))
    overrides = {name: value for name, value in asdict(job.sampling).items() if value is not None}
    given = job.rollouts.prompts
    torch.manual_seed(job.trainer.seed)
    bank = _new_heads(job, backbone.width)
    origin = None
    if job.start_from is not None:
        origin = origin_of(job.start_from, Path(job.folder), job.resume)
        begin(bank, origin, backbone, Path(job.folder), job.resume)
    bank.check_targets(backbone.grid)
    return Parts(
        backbone=backbone,
        bank=bank,
        sampling=replace(backbone.sampling, **overrides),
        prompts=read_prompts(given) if given else rollout_prompts(job.model.name),
        painters={name: _painter(name, bank) for name in PAINTERS[bank.kind]},
        origin=origin,
    )


def _new_heads(job: TrainJob, width: int) -> DraftHeads:
    kind, options = parse_heads(job.heads)
    return build_heads(kind, width, options)


def _painter(name: str, bank: DraftHeads) -> Method:
    options = decoder_options(name)
    return build_method(options.pop("name"), options, bank)


def _rollouts(job: TrainJob, parts: Parts) -> RolloutSet | Stream:
    """Makes what is missing, and proves that all of it can be trained on; of a stream, the first few images.

    Every process comes here: those that torchrun has started sample together, and wait for each other by
    looking at the folder, since a collective would time out. Each verifies the whole set for itself, so that
    none is away in training while another finds damage and the set is made whole again.
    """
    options = {name: value for name, value in asdict(job.rollouts).items() if name != "prompts"}
    options["batch"] = sampling_batch(job, parts.backbone)
    streams = job.data.mode == STREAM
    if streams:
        options["images"] = min(CHECKED_IMAGES, job.rollouts.images)
    rollouts = make_rollouts(
        parts.backbone, parts.prompts, sampling=parts.sampling, on_damage=job.data.on_damage, **options
    )
    rollouts.verify()
    source: RolloutSet | Stream = rollouts
    if streams:
        source = open_stream(job, parts.backbone, parts.sampling, parts.prompts, options["batch"])
    rollouts.verify()
    if process_rank() != 0:
        return source
    images = [rollouts[i] for i in range(min(CHECKED_IMAGES, len(rollouts)))]
    check = check_harvest(parts.backbone, images, guided=parts.sampling.guidance != 1)
    print(f"{len(rollouts)} images verified; their states give the live logits within {check.error:.1e}")
    return source


def _options(job: TrainJob) -> dict[str, Any]:
    """The options that the final weights depend on, whatever rollouts and backbone turn out to be."""
    trainer = asdict(job.trainer)
    free = ("validate_every", "validation_images", "save_every")
    # A checkpoint knows of no strategy, and the loader goes on with the same images on any number of devices.
    free += ("strategy", "zero_stage", "devices", "nodes", "accumulate")
    for name in free:
        trainer.pop(name)
    return run.flat({"heads": job.heads, "trainer": trainer})


def _contract(job: TrainJob, rollouts: RolloutSet | Stream, origin: Origin | None) -> dict[str, Any]:
    """What the final weights depend on."""
    made = asdict(rollouts.contract)
    started = {} if origin is None else origin.contract()
    found = run.flat(
        {
            "model": {"name": made["backbone"], "fingerprint": made["fingerprint"]},
            "sampling": made["sampling"],
            "rollouts": {"images": len(rollouts), "seed": made["seed"], "prompts": made["prompts"]},
        }
    )
    return started | found | _options(job)


def _print_parameters(parts: Parts) -> None:
    """What is trained and what is not."""
    bank, backbone = parts.bank, parts.backbone
    for name, part in [*bank.parts().items(), ("all heads", bank)]:
        weights = list(part.parameters())
        count = sum(weight.numel() for weight in weights if weight.requires_grad)
        print(f"  {name:<18}{count:>12,} trained    {_dtype(weights[0].dtype)}")
    print(f"  {'backbone ' + backbone.name:<18}{0:>12,} trained    {_dtype(backbone.dtype)}, frozen")


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _figures(metrics: Mapping[str, float]) -> dict[str, float]:
    """What a metrics file says of the heads, without the bookkeeping of training."""
    others = ("time/", IMAGE_ROWS)
    return {
        name: value
        for name, value in metrics.items()
        if name == "loss" or ("/" in name and not name.startswith(others))
    }


def _write_bundle(job: TrainJob, parts: Parts, last: Path) -> Path:
    """Saves the heads of a checkpoint as a bundle and loads them again, as a user will."""
    folder = Path(job.folder)
    bank = _new_heads(job, parts.backbone.width)
    bank.load_state_dict(read_heads(last))
    save_bundle(
        folder / run.HEADS,
        bank,
        backbone=parts.backbone,
        sampling=parts.sampling,
        training={
            "images": job.rollouts.images,
            "steps": job.trainer.steps,
            "batch": job.trainer.batch,
            "devices": job.trainer.devices,
            "learning_rate": job.trainer.learning_rate,
            "weight_decay": job.trainer.weight_decay,
            "precision": job.trainer.precision,
            **({} if parts.origin is None else {"started_from": parts.origin.record()}),
        },
        metrics={"images": job.trainer.validation_images, **_figures(last_metrics(folder / FILE))},
        golden=golden(parts.backbone, parts.prompts[0]),
    )
    loaded = load_bundle(folder / run.HEADS, parts.backbone).bank.state_dict()
    differing = [name for name, weight in bank.state_dict().items() if not weight.equal(loaded[name].cpu())]
    if differing:
        raise RowcastError(
            f"expected the weights of {last} in {folder / run.HEADS}, found others in {differing[0]}: "
            "run the same command again to write the bundle anew"
        )
    return folder / run.HEADS
