"""One benchmark: decoders side by side on the same prompts and seeds, in the same engine, with a report.

Speed is measured image by image with the decoders taking turns; quality on a larger set painted in
batches. Everything is logged as it is made (`eval/samples.py`) and all figures are computed from the log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from backbones.contract import Backbone, Sampling
from backbones.durable import only_writer
from backbones.errors import RowcastError
from decoding.methods.method import Method
from eval.environment import environment
from eval.exhibits import gallery
from eval.heads import describe
from eval.judge import can_judge, check_judge
from eval.passes import Bench, Plan, profile_pass, quality_pass, score_pass, speed_pass
from eval.report import write_report
from eval.results import Results, Subject, write_results
from eval.samples import SampleLog, unwritable
from eval.summary import summarise, timed_sessions
from heads.contract import DraftHeads


def run_benchmark(
    backbone: Backbone,
    heads: Mapping[str, DraftHeads],
    *,
    decoders: Mapping[str, Method],
    options: Mapping[str, Mapping[str, object]],
    prompts: Sequence[str],
    sampling: Sampling,
    plan: Plan,
    folder: Path,
    command: str,
) -> Results:
    """Runs what is missing of the benchmark, then writes `results.json` and `report.html` into `folder`.

    Args:
        backbone: the frozen generator.
        heads: what the decoders draft with, by kind.
        decoders: name -> method; one of them must be plain autoregression, the baseline.
        options: name -> the options that the method was built with, for the record.
        prompts: taken in order; after the last one every prompt gets its next image.
        sampling: the law that all decoders sample from.
        plan: how much to paint.
        folder: where the log and the reports go.
        command: the command line that leads here, for the record.

    Raises:
        RowcastError: if no decoder is the baseline, a prompt cannot be judged, the folder is unwritable
            or another benchmark runs in it.
    """
    baseline = require_baseline({name: method.name for name, method in decoders.items()})
    if can_judge(backbone.name) and plan.quality_images:
        check_judge(prompts)
    subject, machine = _subject(backbone, heads), environment(backbone)
    contract = {
        "subject": asdict(subject),
        "sampling": asdict(sampling),
        "decoders": {name: dict(options[name]) for name in decoders},
        "seed": plan.seed,
        "environment": asdict(machine),
    }
    with _only_benchmark(folder):
        log = SampleLog(folder, contract)
        bench = Bench(
            backbone=backbone,
            decoders=decoders,
            baseline=baseline,
            sampling=sampling,
            plan=plan,
            items=work_items(prompts, max(plan.images, plan.quality_images)),
            log=log,
            session=log.next_session,
        )
        speed_pass(bench)
        if backbone.device.type != "cpu":
            profile_pass(bench)
        if plan.quality_images:
            quality_pass(bench)
            score_pass(bench)
        results_of_decoders, control = summarise(bench, options)
        log.close()
        results = Results(
            command=command,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            contract=log.contract,
            subject=subject,
            sampling=sampling,
            plan=plan,
            environment=machine,
            sessions=timed_sessions(bench),
            baseline=baseline,
            decoders=results_of_decoders,
            control=control,
        )
        write_results(results, folder / "results.json")
        write_report(results, gallery(bench), folder / "report.html")
        return results


def work_items(prompts: Sequence[str], count: int) -> list[tuple[str, int]]:
    """The first `count` (prompt, which image of it) pairs: every prompt once, then every prompt again."""
    distinct = list(dict.fromkeys(prompts))
    return [(distinct[index % len(distinct)], index // len(distinct)) for index in range(count)]


def _only_benchmark(folder: Path) -> BinaryIO:
    """The folder's lock, until it is closed: two benchmarks would distort each other's seconds."""
    try:
        return only_writer(folder, "folder=")
    except OSError as error:
        raise unwritable(folder, error) from error


def require_baseline(methods: Mapping[str, str]) -> str:
    """The decoder that all others are compared with: the first of `name -> method` that is plain sampling.

    Raises:
        RowcastError: if there is none.
    """
    for name, method in methods.items():
        if method == "ar":
            return name
    raise RowcastError(
        f"expected ar among the decoders, found {', '.join(methods) or 'none'}: "
        "set benchmark.decoders=[ar,...], since every figure is relative to it"
    )


def _subject(backbone: Backbone, heads: Mapping[str, DraftHeads]) -> Subject:
    return Subject(
        backbone=backbone.name,
        fingerprint=backbone.fingerprint,
        grid=backbone.grid,
        codes=backbone.codes,
        heads={kind: describe(live) for kind, live in heads.items()},
    )
