"""`python -m eval`: benchmarks decoders side by side; `python -m eval doctor`: why heads draft badly.

A quick look on any CPU: `python -m eval benchmark.images=4 benchmark.quality_images=8`.
`python -m eval report` writes the report anew, `python -m eval compare` tests two benchmarks.
"""

import sys

from conf.launch import launch
from conf.schema import CompareJob, DoctorJob, EvalJob, ReportJob

REGRESSION = 1
"""Exit status of a comparison that proves something worse."""
CAUSE_FOUND = 1
"""Exit status of the doctor."""


def benchmark(job: EvalJob) -> None:
    """Runs the benchmark; heavy libraries are imported here, so that `--help` and mistakes answer at once."""
    from eval.job import run

    run(job)


def report(job: ReportJob) -> None:
    """Says where the page is."""
    from pathlib import Path

    from eval.rendering import render_again

    print(f"report: {render_again(Path(job.folder).expanduser())}")


def compare(job: CompareJob) -> None:
    """Prints a line a test; exits with 1 for a regression."""
    from pathlib import Path

    from eval.compare import compare
    from eval.comparison import comparison_table

    found = compare(
        Path(job.before).expanduser(), Path(job.after).expanduser(), forwards_margin=job.forwards_margin
    )
    print(comparison_table(found))
    if found.regressions:
        sys.exit(REGRESSION)


def doctor(job: DoctorJob) -> None:
    """Names the first known cause of low acceptance; exits with 1 if there is one."""
    from eval.doctor.job import diagnose

    if diagnose(job):
        sys.exit(CAUSE_FOUND)


COMMANDS = {
    "report": (ReportJob, report),
    "compare": (CompareJob, compare),
    "doctor": (DoctorJob, doctor),
}
"""What may stand before the options, in place of the benchmark itself."""


if __name__ == "__main__":
    words = sys.argv[1:]
    if words and words[0] in COMMANDS:
        schema, job = COMMANDS[words[0]]
        sys.argv[1:] = words[1:]
        launch(words[0], schema, job, command=words[0])
    else:
        launch("eval", EvalJob, benchmark)
