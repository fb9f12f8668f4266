"""`python -m train.throughput`: how much of a training step is arithmetic, and what all around it costs.

The two parts that are matrix products, timed alone: (a) the backbone's forwards (states, siblings), (b) the
heads' forward and backward. Then (c) real training of the same batches, with loader, Lightning, optimiser,
progress bar and loggers. All in one process, taking turns, so that a busy machine slows all of them; CPU time
beside the clock's, since other programs do not count in it. Training should keep at least 80 % of the pace
that (a) and (b) allow. Validation and checkpoints, which are as frequent as one likes, are left out of (c).

Takes the options of `python -m train`, makes rollouts that are missing, leaves no other files.
"""

import statistics
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from conf.launch import launch
from conf.schema import TrainJob

if TYPE_CHECKING:
    from data.reading import Reader
    from data.rollouts import RolloutSet
    from data.stream import Stream
    from train.fit import Parts
    from train.module import Batch, HeadTraining

ROUNDS, STEPS = 5, 12
NEVER = 10**9
WANTED = 0.8


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds a step, one value a round."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, marks: list[tuple[float, float]], steps: int) -> None:
        """Adds a round from pairs of (clock, CPU time): a beginning, an end, a beginning, ..."""
        for values, kind in ((self.wall, 0), (self.cpu, 1)):
            spans = [end[kind] - begin[kind] for begin, end in zip(marks[::2], marks[1::2], strict=True)]
            values.append(sum(spans) / steps)


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """What a step costs, alone and in training."""

    images: int
    """A step."""
    backbone: Cost = field(default_factory=Cost)
    heads: Cost = field(default_factory=Cost)
    optimiser: Cost = field(default_factory=Cost)
    training: Cost = field(default_factory=Cost)

    def shares(self, kind: str) -> list[float]:
        """Of training's step, the part that backbone and heads take alone, by round; `kind`: wall or cpu."""
        alone = zip(getattr(self.backbone, kind), getattr(self.heads, kind), strict=True)
        whole = getattr(self.training, kind)
        return [sum(parts) / step for parts, step in zip(alone, whole, strict=True)]


class Stopwatch(Callback):
    """The end of every step; the last callback."""

    def __init__(self, mark: Callable[[], tuple[float, float]]) -> None:
        self.ends: list[tuple[float, float]] = []
        self._mark = mark

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.ends.append(self._mark())


def measure(
    job: TrainJob, parts: "Parts", rollouts: "RolloutSet | Stream", rounds: int = ROUNDS, steps: int = STEPS
) -> Throughput:
    """Times the parts and the whole in turns.

    Args:
        job: of training; its folder is not touched.
        parts: what trains.
        rollouts: the images.
        rounds: how often.
        steps: of training in a round, at least 4: the first warms up, the last validates and saves.
    """
    from data.reading import Reader
    from train.fit import fit
    from train.module import Batches, HeadTraining
    from train.optimiser import Schedule
    from train.steps import WholeRun

    device = parts.backbone.device
    schedule = Schedule(steps=steps, warm_up=0, learning_rate=1e-6, weight_decay=0.0)
    reader = Reader(
        parts.backbone,
        guidance=parts.sampling.guidance,
        siblings=parts.bank.reads_siblings,
        seed=job.trainer.seed,
    )
    module = HeadTraining(
        parts.bank,
        parts.backbone,
        schedule,
        reads=reader,
        chunk=job.trainer.loss_chunk,
        seed=job.trainer.seed,
        mixed=job.trainer.precision == "bf16-mixed",
    ).to(device)

    def mark() -> tuple[float, float]:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return perf_counter(), process_time()

    result = Throughput(images=job.trainer.batch)
    for _ in range(rounds):
        with TemporaryDirectory() as folder:
            stopwatch = Stopwatch(mark)
            fit(_short(job, Path(folder), steps), parts, rollouts, stopwatch)
            _finish_wandb()
        result.training.add([stopwatch.ends[0], stopwatch.ends[-2]], steps - 2)
        loader = iter(WholeRun(Batches(rollouts, job.trainer.batch, job.trainer.seed), steps))
        batches = [next(loader) for _ in range(steps - 2)]
        _alone(module, reader, batches, mark, clip=job.trainer.clip, result=result)
    return result


def _alone(
    module: "HeadTraining",
    reader: "Reader",
    batches: "list[Batch]",
    mark: Callable[[], tuple[float, float]],
    *,
    clip: float,
    result: Throughput,
) -> None:
    from train.optimiser import build_optimiser

    optimiser = build_optimiser(module, module.schedule)
    marks: dict[str, list[tuple[float, float]]] = {"backbone": [], "heads": [], "optimiser": []}

    @contextmanager
    def timed(part: str):  # noqa: ANN202
        marks[part].append(mark())
        yield
        marks[part].append(mark())

    for batch in batches:
        with timed("backbone"):
            readings = [reader(rollout, batch.epoch) for rollout in batch.rollouts]
            lesson = module.lesson(batch.rollouts, readings, seed=0)
        with timed("heads"):
            module.bank.objective(module.losses(lesson)).backward()
        with timed("optimiser"):
            torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
            optimiser.step()
            optimiser.zero_grad()
    for part, found in marks.items():
        getattr(result, part).add(found, len(batches))


def _short(job: TrainJob, folder: Path, steps: int) -> TrainJob:
    """One process, one batch a step, nothing between the first step and the last."""
    trainer = replace(
        job.trainer,
        strategy="auto",
        devices=1,
        nodes=1,
        accumulate=1,
        steps=steps,
        warm_up=0,
        validate_every=NEVER,
        save_every=NEVER,
        validation_images=1,
    )
    return replace(job, folder=str(folder), resume="auto", trainer=trainer)


def _finish_wandb() -> None:
    import wandb

    if wandb.run is not None:
        wandb.finish()


def table(result: Throughput) -> str:
    """The figures for people: medians over rounds, with their ranges."""
    lines = [f"{'a step of ' + str(result.images) + ' images':<28}{'clock':>22}{'CPU time':>22}"]
    for name, cost in (
        ("(a) backbone, alone", result.backbone),
        ("(b) heads, alone", result.heads),
        ("    optimiser, alone", result.optimiser),
        ("(c) training", result.training),
    ):
        lines.append(f"{name:<28}{_spread(cost.wall, 1e3, ' ms'):>22}{_spread(cost.cpu, 1e3, ' ms'):>22}")
    wall, cpu = result.shares("wall"), result.shares("cpu")
    lines.append(f"{'(a + b) / c':<28}{_spread(wall, 1e2, ' %'):>22}{_spread(cpu, 1e2, ' %'):>22}")
    images = result.images / statistics.median(result.training.wall)
    verdict = "at least" if statistics.median(cpu) >= WANTED else "LESS THAN"
    lines.append(f"training keeps {verdict} {WANTED:.0%} of the pace of its two parts; {images:.3g} images/s")
    return "\n".join(lines)


def _spread(values: list[float], scale: float, unit: str) -> str:
    scaled = sorted(scale * value for value in values)
    return f"{statistics.median(scaled):.0f}{unit} ({scaled[0]:.0f} to {scaled[-1]:.0f})"


def main(job: TrainJob) -> None:
    """Measures and prints."""
    from train.job import prepare

    print(table(measure(job, *prepare(job))))


if __name__ == "__main__":
    launch("train", TrainJob, main)
