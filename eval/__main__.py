"""`python -m eval`: benchmarks decoders side by side and writes a report.

A quick look on any CPU: `python -m eval benchmark.images=4 benchmark.quality_images=8`
"""

from conf.launch import launch
from conf.schema import EvalJob


def main(job: EvalJob) -> None:
    """Runs the job; heavy libraries are imported here, so that `--help` and mistakes answer at once."""
    from eval.job import run

    run(job)


if __name__ == "__main__":
    launch("eval", EvalJob, main)
