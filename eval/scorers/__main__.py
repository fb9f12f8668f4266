"""Scores painted images under named protocols.

python -m eval.scorers geneval images=outputs/geneval
python -m eval.scorers geneval images=drawings detector=shapes      (flat drawings: no weights, any CPU)
"""

import sys
from dataclasses import asdict
from functools import partial
from typing import Any

from conf.launch import BAD_INPUT, launch
from conf.scoring import ClipJob, DpgJob, FidJob, GenEvalJob

USAGE = """Scores of painted images, each under the name of its protocol (docs/scorers.md).

  python -m eval.scorers geneval images=<folder>                                  GenEval
  python -m eval.scorers dpg images=<folder> questions=<dpg_bench.csv>            DPG-Bench
  python -m eval.scorers clip images=<folder>                                     CLIP-score
  python -m eval.scorers fid images=<folder> reference=<folder> inception=<file>  FID and KID

--help after a command shows its options."""

COMMANDS = {"geneval": GenEvalJob, "dpg": DpgJob, "clip": ClipJob, "fid": FidJob}


def run(command: str, job: Any) -> None:
    """Runs the command; heavy libraries are imported here, so that `--help` and mistakes answer at once."""
    from eval.scorers import jobs

    getattr(jobs, command)(**asdict(job))


def main(words: list[str]) -> None:
    """Takes the command off; the rest are options."""
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
    elif words[0] not in COMMANDS:
        known = ", ".join(COMMANDS)
        print(
            f"eval.scorers: expected one of {known}, found {words[0]!r}: --help shows them", file=sys.stderr
        )
        sys.exit(BAD_INPUT)
    else:
        sys.argv[1:] = words[1:]
        launch(words[0], COMMANDS[words[0]], partial(run, words[0]), command=words[0])


if __name__ == "__main__":
    main(sys.argv[1:])
