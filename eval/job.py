"""The benchmark job: from options to decoders, prompts and a run, then the figures on the terminal."""

import random
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from backbones.contract import Backbone, Sampling
from backbones.registry import load_backbone, rollout_prompts
from conf.decoders import decoder_names, decoder_options
from conf.schema import EvalJob
from decoding.methods import build_method
from decoding.methods.method import Method
from decoding.options import HEADS
from decoding.prompts import read_prompts
from decoding.room import ROWS_AT_ONCE, images_at_once
from eval.benchmark import require_baseline, run_benchmark
from eval.heads import find_bundles, load_bundles
from eval.judge import can_judge, check_judge
from eval.passes import Plan
from eval.table import json_line, terminal_table
from heads.contract import DraftHeads

QUALITY_BATCH = 16
"""Images painted at a time where nobody asks for a number; more take more memory and save little time."""


def run(job: EvalJob, program: str = "eval") -> Path:
    """Runs the benchmark that `job` describes; the path of the report.

    Args:
        job: the options.
        program: the entry point that runs it, for the record.

    Raises:
        RowcastError: for options, prompts, heads or folders that cannot be used.
    """
    options, prompts = check(job)
    bundles = find_bundles(job.heads, {name: chosen["name"] for name, chosen in options.items()})
    backbone = load_backbone(**asdict(job.model))
    heads = load_bundles(bundles, backbone)
    folder = Path(job.folder)
    overrides = {name: value for name, value in asdict(job.sampling).items() if value is not None}
    sampling = replace(backbone.sampling, **overrides)
    results = run_benchmark(
        backbone,
        heads,
        decoders={name: _method(chosen, heads) for name, chosen in options.items()},
        options=options,
        prompts=prompts,
        sampling=sampling,
        plan=Plan(
            images=job.benchmark.images,
            quality_images=job.benchmark.quality_images,
            warm_up=job.benchmark.warm_up,
            seed=job.benchmark.seed,
            quality_batch=_quality_batch(job, backbone, sampling, prompts),
        ),
        folder=folder,
        command=shlex.join(["python", "-m", program, *sys.argv[1:]]),
    )
    report = folder / "report.html"
    print(f"\n{terminal_table(results)}\n\nreport: {report}\n{json_line(results, report)}")
    return report


def check(job: EvalJob) -> tuple[dict[str, dict[str, Any]], Sequence[str]]:
    """What can be found out about a benchmark before there are heads: the decoders' options and the prompts.

    Raises:
        RowcastError: for an unknown decoder, no baseline among them, prompts that cannot be used.
    """
    options = {name: decoder_options(name) for name in decoder_names(job.benchmark.decoders)}
    require_baseline({name: chosen["name"] for name, chosen in options.items()})
    prompts = _prompts(job.benchmark.prompts, job.model.name, job.benchmark.seed)
    if can_judge(job.model.name) and job.benchmark.quality_images:
        check_judge(prompts)
    return options, prompts


def _quality_batch(job: EvalJob, backbone: Backbone, sampling: Sampling, prompts: Sequence[str]) -> int:
    """`benchmark.quality_batch`: what was asked for, or as many images as fit into memory.

    Raises:
        RowcastError: if they do not fit, with the largest number that does.
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


def _prompts(path: str | None, model: str, seed: int) -> Sequence[str]:
    """The prompts of a file in its order, or all of the model's own in a seeded order."""
    if path is not None:
        return read_prompts(Path(path))
    prompts = list(rollout_prompts(model))
    random.Random(seed).shuffle(prompts)
    return prompts
