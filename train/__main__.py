"""`python -m train`: trains draft heads for a frozen image generator, then benchmarks them.

The pocket model on any CPU, in minutes: `python -m train`. A smoke run in seconds:
`python -m train trainer.steps=2 trainer.batch=2 rollouts.images=4 benchmark.images=1
benchmark.quality_images=2 folder=outputs/smoke rollouts.folder=outputs/smoke/rollouts`
"""

from conf.launch import launch
from conf.schema import EvalJob, TrainJob
from train.words import expand


def benchmark_prompts(job: TrainJob) -> str | None:
    """The prompts file of the benchmark: its own, else the rollouts', else none for the model's list.

    A model with a judge is benchmarked on its own list, since other words may be beyond the judge.
    """
    from eval.job import can_judge

    return job.benchmark.prompts or (None if can_judge(job.model.name) else job.rollouts.prompts)


def main(job: TrainJob) -> None:
    """Runs the job; heavy libraries are imported here, so that `--help` and mistakes answer at once."""
    from dataclasses import replace
    from pathlib import Path

    from eval.job import check, run
    from train.bill.bill import print_bill
    from train.job import heading, train
    from train.run import BENCHMARK, HEADS

    folder = Path(job.folder)
    benchmark = EvalJob(
        model=job.model,
        sampling=job.sampling,
        benchmark=replace(job.benchmark, prompts=benchmark_prompts(job)),
        heads=str(folder / HEADS),
        folder=str(folder / BENCHMARK),
        attach=True,
    )
    prompts = check(benchmark).prompts
    if job.plan_only:
        print_bill(job)
        return
    if train(job, prompts[: max(job.benchmark.images, job.benchmark.quality_images)]) is None:
        return
    heading(4, f"benchmark: {benchmark.folder}")
    run(benchmark, program="train")


if __name__ == "__main__":
    launch("train", TrainJob, main, expand=expand)
