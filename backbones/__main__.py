"""Says whether a copy of a backbone's weights is right.

python -m backbones check                                   (the pocket model, seconds on a laptop's CPU)
python -m backbones check +model=lumina path=/models/Lumina-mGPT-7B-768
"""

import sys
from typing import TYPE_CHECKING

from conf.launch import BAD_INPUT, INTERRUPTED, help_text, launch
from conf.schema import BackboneJob

if TYPE_CHECKING:
    from backbones.contract import Backbone

FAILED = 1
"""Exit status where a proof failed."""
USAGE = """The frozen image generators behind Rowcast.

  python -m backbones check [option=value ...]    proves that a copy of the weights is right
  python -m backbones check --help                shows every option"""


def run(job: BackboneJob) -> None:
    """Prints a line a proof and a table at the end; exits with 1 if a proof failed."""
    from dataclasses import asdict
    from functools import partial
    from pathlib import Path

    from backbones.check_job import check_copy
    from backbones.report import Report
    from decoding.paint import require_writable
    from decoding.warp import Warp

    if job.paint:
        require_writable(Path(job.out))
    paint, report = partial(paint_one, job) if job.paint else None, Report()
    try:
        check_copy(report, asdict(job.model), prompt=job.prompt, seed=job.seed, warp=Warp, paint=paint)
    except KeyboardInterrupt:
        print("\ninterrupted: what is printed stands, the rest was not tested", file=sys.stderr)
        sys.exit(INTERRUPTED)
    print(report.table())
    if report.failed:
        sys.exit(FAILED)


def paint_one(job: BackboneJob, backbone: "Backbone", prompt: str) -> str:
    """Paints by autoregression, with a bar in tokens; returns what was written, where."""
    from pathlib import Path

    from tqdm import tqdm

    from decoding.methods.ar import WatchedAR
    from decoding.paint import paint

    with tqdm(total=backbone.grid.size, desc="painting", unit="token", leave=False, disable=None) as bar:
        done = paint(
            backbone,
            WatchedAR(bar),
            [prompt],
            images=1,
            seed=job.seed,
            batch=1,
            sampling=backbone.sampling,
            out=Path(job.out),
        )
    return f"{done.path}, {done.forwards:.0f} forwards in {done.seconds:.1f} s"


def main(words: list[str]) -> None:
    """Takes the command off; the rest are options."""
    if not words:
        print(USAGE)
    elif words[0] in ("-h", "--help"):
        print(USAGE, help_text("backbones"), sep="\n\n")
    elif words[0] != "check":
        print(f"backbones: expected the command check, found {words[0]!r}: --help shows it", file=sys.stderr)
        sys.exit(BAD_INPUT)
    else:
        sys.argv[1:] = words[1:]
        launch("backbones", BackboneJob, run)


if __name__ == "__main__":
    main(sys.argv[1:])
