"""One benchmark: decoders side by side on the same prompts and seeds, in the same engine, with a report.

Speed is measured image by image with the decoders taking turns; quality on a larger set painted in
batches. Everything is logged as it is made (`eval/samples.py`) and all figures are computed from the log.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from backbones.contract import Backbone, Sampling
from backbones.durable import only_writer
from backbones.errors import RowcastError
from decoding.accounting import has_fixed_count
from decoding.methods.method import Method
from eval.bench import Bench, Columns, Plan, ReferenceLoop
from eval.environment import Environment, environment
from eval.exhibits import gallery
from eval.heads import describe
from eval.items import Item, Shard
from eval.judge import can_judge, check_judge
from eval.latency.figures import Latency, LatencyPlan
from eval.latency.keep import CellFile
from eval.latency.sweep import Subject as Swept
from eval.latency.sweep import sweep
from eval.passes import profile_pass, quality_pass, speed_pass
from eval.rendering import render
from eval.results import RESULTS_FILE, PromptSource, Results, Subject, write_results
from eval.reuse import BaselinePool, baseline_contract
from eval.samples import SCHEMA, SHARDS, SampleLog, log_files, unwritable
from eval.summary import ladder, summarise, timed_sessions
from heads.contract import DraftHeads


@dataclass(frozen=True, kw_only=True)
class Extras:
    """What a benchmark may have besides decoders and prompts."""

    suite: str | None = None
    """The name of the choice of prompts, for the record."""
    files: Mapping[str, str] | None = None
    """sha256 of the prompt sets' files, by set."""
    shard: Shard = field(default_factory=Shard)
    """The part that this process paints."""
    baselines: Path | None = None
    """Folder of the baseline's images of all benchmarks; none: paint them anew."""
    reference: ReferenceLoop | None = None
    """The generation loop of the model's own library, for the ladder."""
    loop: str = ""
    """What that is."""
    columns: Callable[[Path], Columns] | None = None
    """Makes further columns of the quality table, which keep what they need in a folder."""
    latency: LatencyPlan | None = None
    """A sweep over batch sizes, before the images."""
    untrained: Sequence[str] = ()
    """What of the model is random: `weights`, `heads`."""


def run_benchmark(
    backbone: Backbone,
    heads: Mapping[str, DraftHeads],
    *,
    decoders: Mapping[str, Method],
    options: Mapping[str, Mapping[str, object]],
    items: Sequence[Item],
    sampling: Sampling,
    plan: Plan,
    folder: Path,
    command: str,
    extras: Extras | None = None,
) -> Results | None:
    """Runs what is missing of the benchmark, then writes `results.json`, tables and page into `folder`.

    Args:
        backbone: the frozen generator.
        heads: what the decoders draft with, by kind.
        decoders: name -> method; one of them must be plain autoregression, the baseline.
        options: name -> the options that the method was built with, for the record.
        items: what to paint, in order; as many as the plan takes.
        sampling: the law that all decoders sample from.
        plan: how much to paint.
        folder: where the log and the reports go.
        command: the command line that leads here, for the record.
        extras: what else there is.

    Returns:
        The figures; none where other processes still have their parts to paint.

    Raises:
        RowcastError: if no decoder is the baseline, a prompt cannot be judged, the folder is unwritable
            or another benchmark runs in it.
    """
    extras = extras or Extras()
    baseline = require_baseline({name: method.name for name, method in decoders.items()})
    if can_judge(backbone.name) and plan.quality_images:
        check_judge([item.prompt.text for item in items])
    subject, machine = _subject(backbone, heads), environment(backbone)
    contract = {
        "schema": SCHEMA,
        "subject": asdict(subject),
        "sampling": asdict(sampling),
        "decoders": {name: dict(options[name]) for name in decoders},
        "seed": plan.seed,
        "environment": asdict(machine),
    }
    part = None if extras.shard.of == 1 else f"{extras.shard.part + 1}-of-{extras.shard.of}"
    with _only_benchmark(folder / SHARDS / part if part else folder):
        log = SampleLog(folder, contract, part)
        bench = Bench(
            backbone=backbone,
            decoders=decoders,
            baseline=baseline,
            sampling=sampling,
            plan=plan,
            items=items,
            log=log,
            session=log.next_session,
            shard=extras.shard,
            columns=extras.columns and extras.columns(log.path.parent / f"scores-{log.contract}"),
            reference=extras.reference,
        )
        latency = _sweep(bench, options, extras, folder)
        _measure(bench, _pool(bench, options[baseline], machine, extras.baselines), latency)
        log.close()
        log.refresh()
        if bench.missing():
            return None
        return _conclude(
            bench,
            folder,
            subject=subject,
            machine=machine,
            options=options,
            command=command,
            extras=extras,
            latency=latency,
        )


def _pool(
    bench: Bench, options: Mapping[str, object], machine: Environment, folder: Path | None
) -> BaselinePool | None:
    if folder is None:
        return None
    contract = baseline_contract(bench.backbone, options, bench.sampling, bench.plan.seed, machine)
    return BaselinePool(folder, contract, bench.baseline)


def _sweep(
    bench: Bench, options: Mapping[str, Mapping[str, object]], extras: Extras, folder: Path
) -> Latency | None:
    """The sweep over batch sizes; what an earlier start has measured is kept."""
    if extras.latency is None:
        return None
    file = CellFile(folder, bench.log.contract, extras.latency)
    kept = file.read()
    return sweep(
        Swept(
            backbone=bench.backbone,
            decoders=bench.decoders,
            sampling=bench.sampling,
            prompts=list(dict.fromkeys(item.prompt.text for item in bench.items)),
            seed=bench.plan.seed,
        ),
        extras.latency,
        fixed=[name for name, chosen in options.items() if has_fixed_count(bench.backbone.grid, chosen)],
        known=(kept.cells, kept.skipped),
        keep=file.keep,
    )


def _measure(bench: Bench, pool: BaselinePool | None, latency: Latency | None) -> None:
    speed_pass(bench)
    if bench.backbone.device.type != "cpu" and latency is None:  # the sweep has told the phases
        profile_pass(bench)
    if bench.plan.quality_images:
        quality_pass(bench, pool)


def _conclude(
    bench: Bench,
    folder: Path,
    *,
    subject: Subject,
    machine: Environment,
    options: Mapping[str, Mapping[str, object]],
    command: str,
    extras: Extras,
    latency: Latency | None,
) -> Results:
    """Computes the figures from the log, and writes them."""
    decoders, control = summarise(bench, options, latency)
    results = Results(
        command=command,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        contract=bench.log.contract,
        suite=extras.suite,
        prompts=_sources(bench, extras.files or {}),
        subject=subject,
        untrained=list(extras.untrained),
        sampling=bench.sampling,
        plan=bench.plan,
        environment=machine,
        sessions=timed_sessions(bench),
        processes=len(log_files(folder, bench.log.contract)),
        baseline=bench.baseline,
        decoders=decoders,
        control=control,
        ladder=ladder(bench, extras.loop),
        latency=latency,
        gallery=gallery(bench, folder),
    )
    write_results(results, folder / RESULTS_FILE)
    render(results, bench.log.images, folder)
    return results


def _sources(bench: Bench, files: Mapping[str, str]) -> list[PromptSource]:
    """The prompt sets of the quality images, or of the timed ones where no quality is measured."""
    items = bench.items[: bench.plan.quality_images or bench.plan.images]
    names = list(dict.fromkeys(item.prompt.set for item in items))
    return [
        PromptSource(
            name=name,
            prompts=len({item.prompt.id for item in items if item.prompt.set == name}),
            images=sum(item.prompt.set == name for item in items),
            file=files.get(name),
        )
        for name in names
    ]


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
