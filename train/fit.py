"""Training itself: Lightning put together from the options, run from the last checkpoint to the last step."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.loggers import Logger

from backbones.contract import Backbone, Sampling
from conf.schema import TrainJob
from data.rollouts import RolloutSet
from decoding.methods.method import Method
from heads.contract import DraftHeads
from train import run
from train.loggers import MetricsFile, wandb_logger
from train.meter import Meter
from train.module import Batches, HeadTraining
from train.optimiser import Schedule
from train.progress import Progress
from train.saving import CheckpointKeeper, PlainCheckpointIO, check_fits, checkpoint_name, step_of
from train.strategy import build_strategy, process_rank
from train.validation import Validation

VALIDATION_SEED = 2000
"""Of the paintings; apart from the seeds of rollouts and benchmark."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a run is made of."""

    backbone: Backbone
    bank: DraftHeads
    sampling: Sampling
    prompts: Sequence[str]
    """Of the rollouts; validation paints some of them."""
    painters: Mapping[str, Method]
    """The decoders of validation, with `bank` in them."""


def fit(job: TrainJob, parts: Parts, rollouts: RolloutSet) -> Path:
    """Trains `parts.bank` up to the last step.

    Returns:
        The last checkpoint.

    Raises:
        RowcastError: for a checkpoint that cannot be resumed from, a full disk, a loss that is not finite.
        KeyboardInterrupt: after Ctrl-C.
    """
    threads = torch.get_num_threads()  # several processes share the cores; what comes after has them all
    folder = Path(job.folder)
    # With resume=false an earlier run has been moved away by now.
    start = run.resume_point(folder, run.AUTO if job.resume == run.ANEW else job.resume)
    if start is not None:
        check_fits(start, parts.bank.state_dict())
    if start is not None and step_of(start) >= job.trainer.steps:
        print(f"already trained: {start}")
        return start
    if start is not None:
        print(f"resuming at step {step_of(start)}: {start}")
    schedule = Schedule(
        steps=job.trainer.steps,
        warm_up=job.trainer.warm_up,
        learning_rate=job.trainer.learning_rate,
        weight_decay=job.trainer.weight_decay,
    )
    module = HeadTraining(
        parts.bank,
        parts.backbone,
        schedule,
        guidance=parts.sampling.guidance,
        chunk=job.trainer.loss_chunk,
        seed=job.trainer.seed,
    )
    loader = Batches(rollouts, job.trainer.batch, job.trainer.seed)
    try:
        _fit(_trainer(job, parts, rollouts, start), module, loader, start)
    except OSError as error:  # of a figure or a painting; checkpoints have a message of their own
        raise run.unwritable(folder, error) from error
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    torch.set_num_threads(threads)
    return folder / run.CHECKPOINTS / checkpoint_name(job.trainer.steps)


def _fit(trainer: Trainer, module: HeadTraining, loader: Batches, start: Path | None) -> None:
    try:
        trainer.fit(module, loader, ckpt_path=start, weights_only=True)
    except SystemExit:
        if trainer.interrupted:  # Lightning's own end after Ctrl-C
            raise KeyboardInterrupt from None
        raise


def _trainer(job: TrainJob, parts: Parts, rollouts: RolloutSet, start: Path | None) -> Trainer:
    options, device = job.trainer, parts.backbone.device
    strategy = build_strategy(
        options.strategy, device=device.type, devices=options.devices, zero_stage=options.zero_stage
    )
    one = device.type == "cuda" and options.devices == 1
    return Trainer(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=[device.index or 0] if one else options.devices,
        strategy=strategy,
        precision="bf16-mixed" if options.precision == "bf16-mixed" else "32-true",
        plugins=None if options.strategy == "deepspeed" else [PlainCheckpointIO()],
        max_steps=options.steps,
        max_epochs=-1,
        gradient_clip_val=options.clip,
        limit_val_batches=0,
        use_distributed_sampler=False,
        log_every_n_steps=1,
        logger=_loggers(job, start),
        callbacks=_callbacks(job, parts, rollouts),
        default_root_dir=job.folder,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def _callbacks(job: TrainJob, parts: Parts, rollouts: RolloutSet) -> list[Callback]:
    """In the order they run: a step's painting comes before its checkpoint, so a kill never skips one."""
    folder, images = Path(job.folder), job.trainer.validation_images
    validation = Validation(
        parts.backbone,
        parts.painters,
        [parts.prompts[i * len(parts.prompts) // images] for i in range(images)],
        parts.sampling,
        seed=VALIDATION_SEED,
        folder=folder / run.VALIDATION,
        every=job.trainer.validate_every,
        rollouts=rollouts,
        chunk=job.trainer.loss_chunk,
    )
    meter = Meter()
    keeper = CheckpointKeeper(folder / run.CHECKPOINTS, job.trainer.save_every)
    return [meter, Progress(meter), validation, keeper]


def _loggers(job: TrainJob, start: Path | None) -> list[Logger]:
    folder = Path(job.folder)
    loggers: list[Logger] = [MetricsFile(folder, None if start is None else step_of(start))]
    if process_rank() == 0:
        online = wandb_logger(job.wandb.mode, job.wandb.project, folder, run.flat(asdict(job)))
        loggers += [online] if online else []
    return loggers
