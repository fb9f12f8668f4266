"""The benchmark job: from options to decoders, prompts and a run, then the figures on the terminal."""

import random
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from backbones.contract import Backbone, Sampling
from backbones.errors import RowcastError
from backbones.registry import load_backbone, rollout_prompts
from conf.decoders import decoder_names, decoder_options
from conf.schema import EvalJob, Model, Sets
from data.processes import local_rank, rank_and_count
from decoding.methods import build_method
from decoding.methods.method import Method
from decoding.options import HEADS
from decoding.prompts import read_prompts
from decoding.room import ROWS_AT_ONCE, images_at_once
from eval.attach import attach, require_folders
from eval.bench import Columns, Plan
from eval.benchmark import Extras, require_baseline, run_benchmark
from eval.heads import UNTRAINED, find_bundles, load_bundles, untrained_heads
from eval.items import Item, Shard, plain_prompts, set_items, work_items
from eval.judge import can_judge, category, check_judge
from eval.latency.figures import LatencyPlan
from eval.learning import keep_learning
from eval.prompt_sets.choose import Chosen, Share, choose
from eval.prompt_sets.fetch import find
from eval.prompt_sets.manifest import SETS
from eval.prompt_sets.prompt import Prompt
from eval.reference import LOOP, reference_loop
from eval.scoring import Models, build_judges, judged_columns, telling
from eval.table import json_line, terminal_table
from heads.contract import DraftHeads

QUALITY_BATCH = 16
"""Images painted at a time where nobody asks for a number; more take more memory and save little time."""
UNTRAINED_SEED = 0
"""Of random weights."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What can be found out about a benchmark before there are heads."""

    options: dict[str, dict[str, Any]]
    """Of the decoders, by name."""
    items: list[Item]
    """What is painted, in order."""
    files: dict[str, str]
    """sha256 of prompt sets."""

    @property
    def prompts(self) -> list[str]:
        """Every text that is painted, once."""
        return list(dict.fromkeys(item.prompt.text for item in self.items))


def run(job: EvalJob, program: str = "eval") -> Path | None:
    """Runs the benchmark that `job` describes; the path of the report.

    Args:
        job: the options.
        program: the entry point that runs it, for the record.

    Returns:
        The page; none where other processes still have their parts to paint.

    Raises:
        RowcastError: for options, prompts, heads or folders that cannot be used.
    """
    checked, shard = check(job), part(job.shard)
    methods = {name: chosen["name"] for name, chosen in checked.options.items()}
    bare = job.heads == UNTRAINED
    bundles = {} if bare else find_bundles(job.heads, methods)
    if job.attach:
        if bare:
            raise RowcastError(f"expected a bundle for attach=true, found heads={UNTRAINED}: leave it out")
        require_folders(bundles)
    model = _placed(job.model)
    columns = _columns(job, checked, model.device)
    torch.manual_seed(UNTRAINED_SEED)  # of random weights: the same command again goes on with the same ones
    backbone = load_backbone(**asdict(model))
    heads = untrained_heads(methods, backbone) if bare else load_bundles(bundles, backbone)
    folder = Path(job.folder)
    if shard.part == 0:
        keep_learning(bundles, folder)
    overrides = {name: value for name, value in asdict(job.sampling).items() if value is not None}
    sampling = replace(backbone.sampling, **overrides)
    loop = reference_loop(asdict(model), sampling, backbone.device) if job.ladder else None
    results = run_benchmark(
        backbone,
        heads,
        decoders={name: _method(chosen, heads) for name, chosen in checked.options.items()},
        options=checked.options,
        items=checked.items,
        sampling=sampling,
        plan=_plan(job, len(checked.items), _quality_batch(job, backbone, sampling, checked.prompts)),
        folder=folder,
        command=shlex.join(["python", "-m", program, *sys.argv[1:]]),
        extras=Extras(
            suite=job.sets.name if job.sets else None,
            files=checked.files,
            shard=shard,
            baselines=None if job.baselines is None else Path(job.baselines),
            reference=loop,
            loop=LOOP,
            columns=None if columns is None else partial(columns, backbone),
            latency=_latency_plan(job),
            untrained=_untrained(job),
        ),
    )
    if results is None:
        print(
            f"part {shard.part + 1} of {shard.of} is done; the last part to end writes {folder}/report.html"
        )
        return None
    if job.attach:
        attach(bundles, results, folder)
    report = folder / "report.html"
    print(f"\n{terminal_table(results)}\n\nreport: {report}\n{json_line(results, report)}")
    return report


def check(job: EvalJob) -> Checked:
    """The decoders' options and the prompts.

    Raises:
        RowcastError: for an unknown decoder, no baseline among them, prompts that cannot be used, what
            cannot be measured together.
    """
    options = {name: decoder_options(name) for name in decoder_names(job.benchmark.decoders)}
    require_baseline({name: chosen["name"] for name, chosen in options.items()})
    _check_measurable(job)
    items, files = _items(job)
    checked = Checked(options=options, items=items, files=files)
    if can_judge(job.model.name) and job.benchmark.quality_images:
        check_judge(checked.prompts)
    return checked


def _check_measurable(job: EvalJob) -> None:
    """Refuses quality of noise, and a sweep that other processes would disturb."""
    if job.heads == UNTRAINED and job.benchmark.quality_images:
        raise RowcastError(
            f"expected trained heads for {job.benchmark.quality_images} quality images, found "
            "heads=untrained: set benchmark.quality_images=0, or heads= to a bundle"
        )
    if job.latency and job.latency.batches and part(job.shard).of > 1:
        raise RowcastError(
            f"expected one process for the latency sweep, found part {job.shard}: set shard=1/1, or "
            "latency.batches=[] to leave the sweep out"
        )


def part(text: str) -> Shard:
    """What this process paints: `2/8`, or with `auto` what the launcher says of it."""
    if text == "auto":
        rank, count = rank_and_count()
        return Shard(part=rank, of=count)
    number, _, total = text.partition("/")
    return Shard(part=int(number) - 1, of=int(total))


def _plan(job: EvalJob, items: int, quality_batch: int) -> Plan:
    wanted = job.benchmark
    return Plan(
        images=min(wanted.images, items),
        quality_images=min(wanted.quality_images, items),
        warm_up=wanted.warm_up,
        seed=wanted.seed,
        quality_batch=quality_batch,
        reference_images=job.ladder,
    )


def _columns(job: EvalJob, checked: Checked, device: str) -> Callable[[Backbone, Path], Columns] | None:
    """The columns that `scores` names, with their models loaded."""
    names = [job.scores] if isinstance(job.scores, str) else job.scores
    if not names:
        return None
    if not job.benchmark.quality_images:
        raise RowcastError(
            f"expected benchmark.quality_images above 0 for scores=[{','.join(names)}], found 0: "
            "set it, or leave scores out"
        )
    assert job.scoring is not None, "the command line has it"
    items = checked.items[: job.benchmark.quality_images]
    questions = _questions(job.sets) if job.sets and job.sets.dpg.prompts != 0 else None
    judges = build_judges(names, Models(**asdict(job.scoring), device=device), items, questions)
    return partial(judged_columns, judges, telling(checked.items, questions))


def _questions(sets: Sets) -> Path | None:
    """DPG-Bench's file, which has its questions beside its prompts; none for a folder of prompts."""
    file = find(SETS["dpg"], sets.dpg.path, Path(sets.folder), fetch=sets.fetch)
    return file if file.is_file() else None


def _latency_plan(job: EvalJob) -> LatencyPlan | None:
    return LatencyPlan(**asdict(job.latency)) if job.latency and job.latency.batches else None


def _untrained(job: EvalJob) -> list[str]:
    random = {"weights": job.model.weights == "random", "heads": job.heads == UNTRAINED}
    return [name for name, holds in random.items() if holds]


def _placed(model: Model) -> Model:
    """Of several processes on one machine, every one takes its own device."""
    together = rank_and_count()[1] > 1
    if not together or model.device != "auto" or not torch.cuda.is_available():
        return model
    return replace(model, device=f"cuda:{local_rank() % torch.cuda.device_count()}")


def _quality_batch(job: EvalJob, backbone: Backbone, sampling: Sampling, prompts: Sequence[str]) -> int:
    """`benchmark.quality_batch`: what was asked for, or as many images as fit into memory.

    Raises:
        NoRoomError: if they do not fit, with the largest number that does.
    """
    options = job.benchmark
    if not options.quality_images:
        return 1
    return images_at_once(
        backbone,
        sampling,
        prompts,
        wanted=options.quality_batch,
        most=QUALITY_BATCH,
        option="benchmark.quality_batch",
        block=ROWS_AT_ONCE * backbone.grid.cols,
    )


def _method(chosen: Mapping[str, Any], heads: Mapping[str, DraftHeads]) -> Method:
    options = {key: value for key, value in chosen.items() if key != "name"}
    return build_method(chosen["name"], options, heads.get(HEADS.get(chosen["name"], "")))


def _items(job: EvalJob) -> tuple[list[Item], dict[str, str]]:
    """Those of prompt sets, of a file, or of the model's own list in a seeded order; and the sets' hashes."""
    benchmark = job.benchmark
    chosen = None if job.sets is None else _chosen(job.sets, benchmark.seed)
    if chosen is None:
        batches = job.latency.batches if job.latency else []
        count = max(benchmark.images, benchmark.quality_images, *batches)
        return work_items(_plain(job), count), {}
    if benchmark.prompts is not None:
        raise RowcastError(
            f"expected prompt sets or benchmark.prompts, found both ({benchmark.prompts}): "
            "leave one of them out"
        )
    return set_items(chosen.prompts, benchmark.seed), chosen.files


def _shares(sets: Sets) -> dict[str, Share]:
    shares = {entry.name: getattr(sets, entry.name) for entry in fields(sets)}
    return {
        name: Share(prompts=share.prompts, samples=share.samples, path=share.path)
        for name, share in shares.items()
        if hasattr(share, "samples") and share.prompts != 0
    }


def _chosen(sets: Sets, seed: int) -> Chosen | None:
    shares = _shares(sets)
    if not shares:
        return None
    return choose(shares, Path(sets.folder), fetch=sets.fetch, seed=seed)


def _plain(job: EvalJob) -> list[Prompt]:
    name, path = job.model.name, job.benchmark.prompts
    if path is not None:
        texts = list(dict.fromkeys(read_prompts(Path(path))))
    else:
        texts = list(dict.fromkeys(rollout_prompts(name)))
        random.Random(job.benchmark.seed).shuffle(texts)
    if not can_judge(name) or not job.benchmark.quality_images:
        return plain_prompts(texts)
    check_judge(texts)
    return plain_prompts(texts, [category(text) for text in texts])
