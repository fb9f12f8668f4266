"""Training itself: Lightning put together from the options, run from the last checkpoint to the last step."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.loggers import Logger

from backbones.contract import Backbone, Sampling
from conf.schema import Trainer as TrainerOptions
from conf.schema import TrainJob
from data.processes import environment, process_rank
from data.reading import Reader
from data.rollouts import RolloutSet
from data.shards import Rollout
from data.stream import Stream
from decoding.methods.method import Method
from heads.contract import DraftHeads
from train import run
from train.agreement import agreed, from_first, several
from train.cluster import join
from train.loggers import MetricsFile, tensorboard_logger, wandb_logger
from train.meter import Meter
from train.module import Batches, HeadTraining
from train.optimiser import Schedule
from train.origin import Origin
from train.progress import Progress
from train.saving import (
    IMAGES_A_STEP,
    CheckpointKeeper,
    bank_weights,
    check_fits,
    checkpoint_name,
    load,
    step_of,
)
from train.source import open_source
from train.steps import WholeRun
from train.strategy import Portable, build_strategy, process_backend
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
    origin: Origin | None = None
    """Where the first weights of the heads come from, if they are not new."""


def fit(job: TrainJob, parts: Parts, rollouts: RolloutSet | Stream, *watching: Callback) -> Path:
    """Trains up to the last step.

    Args:
        job: the options.
        parts: what trains.
        rollouts: what is trained on.
        watching: callbacks besides a run's own, after them.

    Returns:
        The last checkpoint, which has the trained heads; `parts.bank` may have older ones.

    Raises:
        RowcastError: for a checkpoint that cannot be resumed from, a full disk, a loss that is not finite.
        ElsewhereError: in the processes other than the first, when it raises a RowcastError.
        KeyboardInterrupt: after Ctrl-C.
    """
    threads = torch.get_num_threads()  # several processes share the cores; what comes after has them all
    join(process_backend(parts.backbone.device))
    last = _fit(job, parts, rollouts, watching)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    torch.set_num_threads(threads)
    return last


def images_a_step(options: TrainerOptions) -> int:
    """Images that one step of the optimiser learns from, those of all processes together."""
    return options.batch * options.accumulate * options.devices * options.nodes


def _fit(job: TrainJob, parts: Parts, rollouts: RolloutSet | Stream, watching: Sequence[Callback]) -> Path:
    options, folder = job.trainer, Path(job.folder)
    start = _start(job)
    last = folder / run.CHECKPOINTS / checkpoint_name(options.steps)
    if start is not None:
        check_fits(start, parts.bank.state_dict())
        if step_of(start) >= options.steps:
            _say(f"already trained: {start}")
            return start
        _say(f"resuming at step {step_of(start)}: {start}")
        _say_change(load(start)[IMAGES_A_STEP], images_a_step(options))
    strategy = build_strategy(
        options.strategy,
        device=parts.backbone.device,
        processes=options.devices * options.nodes,
        zero_stage=options.zero_stage,
    )
    # Painters hold `parts.bank`: where the weights that train are sharded, they paint with a copy.
    bank = deepcopy(parts.bank) if strategy.sharded else parts.bank
    schedule = Schedule(
        steps=options.steps,
        warm_up=options.warm_up,
        learning_rate=options.learning_rate,
        weight_decay=options.weight_decay,
    )
    batches = WholeRun(Batches(rollouts, options.batch, options.seed), options.steps * options.accumulate)
    callbacks = [*_callbacks(job, parts, rollouts, strategy), *watching]
    try:
        with open_source(job, parts.backbone, parts.bank, parts.sampling.guidance, rollouts) as reads:
            module = HeadTraining(
                bank,
                parts.backbone,
                schedule,
                reads=reads,
                chunk=options.loss_chunk,
                seed=options.seed,
                mixed=options.precision == "bf16-mixed",
            )
            _run(_trainer(job, parts, callbacks, strategy, start), module, batches, start)
    except OSError as error:  # of a figure or a painting; checkpoints have a message of their own
        raise run.unwritable(folder, error) from error
    return last


def _start(job: TrainJob) -> Path | None:
    """The checkpoint to go on from, as the first process finds it: it may have moved an earlier run away."""
    found = None
    with agreed():
        if process_rank() == 0 or not several():
            found = run.resume_point(Path(job.folder), run.AUTO if job.resume == run.ANEW else job.resume)
    return cast(Path | None, from_first(found))


def _say(line: str) -> None:
    if process_rank() == 0:
        print(line, flush=True)


def _say_change(before: int, now: int) -> None:
    """More processes make larger steps; the schedule and the learning rate stay as they are."""
    if before != now:
        _say(f"a step is {now} images from here on, {before} before: trainer.accumulate can make up for it")


def _run(trainer: Trainer, module: HeadTraining, batches: WholeRun, start: Path | None) -> None:
    try:
        trainer.fit(module, batches, ckpt_path=start, weights_only=True)
    except SystemExit:
        if trainer.interrupted:  # Lightning's own end after Ctrl-C
            raise KeyboardInterrupt from None
        raise


def _trainer(
    job: TrainJob, parts: Parts, callbacks: list[Callback], strategy: Portable, start: Path | None
) -> Trainer:
    options, device = job.trainer, parts.backbone.device
    one = device.type == "cuda" and options.devices == 1
    return Trainer(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=[device.index or 0] if one else options.devices,
        num_nodes=options.nodes,
        strategy=strategy,
        plugins=[environment()],
        precision="32-true",  # of the weights; the module chooses what the heads compute in
        max_steps=options.steps,
        max_epochs=-1,
        accumulate_grad_batches=options.accumulate,
        gradient_clip_val=options.clip,
        limit_val_batches=0,
        use_distributed_sampler=False,
        log_every_n_steps=1,
        logger=_loggers(job, start),
        callbacks=callbacks,
        default_root_dir=job.folder,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def _callbacks(
    job: TrainJob, parts: Parts, rollouts: RolloutSet | Stream, strategy: Portable
) -> list[Callback]:
    """In the order they run: a step's painting comes before its checkpoint, so a kill never skips one."""
    folder, images = Path(job.folder), job.trainer.validation_images

    def refresh() -> None:
        if strategy.sharded and (weights := strategy.lightning_module_state_dict()):
            parts.bank.to(parts.backbone.device).load_state_dict(bank_weights(weights))

    validation = Validation(
        parts.backbone,
        parts.painters,
        [parts.prompts[i * len(parts.prompts) // images] for i in range(images)],
        parts.sampling,
        seed=VALIDATION_SEED,
        folder=folder / run.VALIDATION,
        every=job.trainer.validate_every,
        refresh=refresh,
        bank=parts.bank,
        # Its own: held-out images have no place in a cache.
        reads=Reader(
            parts.backbone,
            guidance=parts.sampling.guidance,
            siblings=parts.bank.reads_siblings,
            seed=VALIDATION_SEED,
        ),
        rollouts=len(rollouts),
        seen=_spread(rollouts, images) if isinstance(rollouts, RolloutSet) else [],
    )
    meter = Meter()
    keeper = CheckpointKeeper(folder / run.CHECKPOINTS, job.trainer.save_every, images_a_step(job.trainer))
    return [meter, Progress(meter), validation, keeper]


def _spread(rollouts: RolloutSet, count: int) -> list[Rollout]:
    """Some of the images, evenly over the set."""
    return [rollouts[i * len(rollouts) // count] for i in range(count)]


def _loggers(job: TrainJob, start: Path | None) -> list[Logger]:
    folder = Path(job.folder)
    step = None if start is None else step_of(start)
    loggers: list[Logger] = [MetricsFile(folder, step)]
    if process_rank() == 0:
        online = wandb_logger(job.wandb.mode, job.wandb.project, folder, run.flat(asdict(job)))
        board = tensorboard_logger(job.tensorboard, folder, step)
        loggers += [logger for logger in (online, board) if logger]
    return loggers
