"""`python -m eval`: benchmarks decoders side by side; `python -m eval doctor`: why heads draft badly.

A quick look on any CPU: `python -m eval benchmark.images=4 benchmark.quality_images=8`
"""

import sys

from conf.launch import launch
from conf.schema import DoctorJob, EvalJob

CAUSE_FOUND = 1
"""Exit status of the doctor."""


def benchmark(job: EvalJob) -> None:
    """Runs the benchmark; heavy libraries are imported here, so that `--help` and mistakes answer at once."""
    from eval.job import run

    run(job)


def doctor(job: DoctorJob) -> None:
    """Names the first known cause of low acceptance; exits with 1 if there is one."""
    from eval.doctor.job import diagnose

    if diagnose(job):
        sys.exit(CAUSE_FOUND)


def main(words: list[str]) -> None:
    """Takes the command off, if there is one; the rest are options."""
    if words[:1] == ["doctor"]:
        sys.argv[1:] = words[1:]
        launch("doctor", DoctorJob, doctor, command="doctor")
    else:
        launch("eval", EvalJob, benchmark)


if __name__ == "__main__":
    main(sys.argv[1:])
