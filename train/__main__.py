"""`python -m train`: trains draft heads for a frozen image generator, then benchmarks them.

The pocket model on any CPU, in minutes: `python -m train`. A smoke run in seconds:
`python -m train trainer.steps=2 trainer.batch=2 rollouts.images=4 benchmark.images=1
benchmark.quality_images=2 folder=outputs/smoke rollouts.folder=outputs/smoke/rollouts`
"""

from conf.launch import launch
from conf.schema import EvalJob, TrainJob


def main(job: TrainJob) -> None:
    """Runs the job; heavy libraries are imported here, so that `--help` and mistakes answer at once."""
    from dataclasses import replace
    from pathlib import Path

    from train.job import heading, train

    bundle = train(job)
    if bundle is None:
        return
    benchmark = Path(job.folder) / "benchmark"
    heading(4, f"benchmark: {benchmark}")
    from eval.job import run

    run(
        EvalJob(
            model=job.model,
            sampling=job.sampling,
            benchmark=replace(job.benchmark, prompts=job.benchmark.prompts or job.rollouts.prompts),
            heads=str(bundle),
            folder=str(benchmark),
        ),
        program="train",
    )


if __name__ == "__main__":
    launch("train", TrainJob, main)
