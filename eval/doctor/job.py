"""The doctor's job: from options to a case, a line a proof, and the first cause."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from backbones.contract import Backbone
from backbones.registry import load_backbone, rollout_prompts
from backbones.report import Report
from checkpoints import find_bundle
from checkpoints.bundle import weights_path
from checkpoints.config import read_config
from checkpoints.weights import read_weights
from conf.decoders import decoder_options
from conf.schema import DoctorJob
from decoding.methods import build_method
from decoding.methods.method import Method
from decoding.options import HEADS
from decoding.prompts import read_prompts
from eval.doctor.case import Case, paint_plainly
from eval.doctor.order import examine, first_cause
from heads.contract import DraftHeads

PAINTERS = {"ssd": "ssd", "mtp": "mtp_strict", "eagle": "eagle"}
"""By kind of heads, the decoder whose acceptance training records first."""


def diagnose(job: DoctorJob) -> bool:
    """Prints a line a proof, a table and the first cause; whether one was found.

    Raises:
        RowcastError: if the backbone cannot be loaded, or the bundle is missing or damaged.
    """
    folder = find_bundle(job.heads)
    config = read_config(folder)
    # Not `load_heads`, which refuses another backbone: the doctor says in what it differs.
    heads = read_weights(weights_path(folder, config), config.heads, config.weights_sha256)
    name = job.decoder or PAINTERS[config.heads.name]
    own = rollout_prompts(job.model.name) if job.prompts is None else read_prompts(Path(job.prompts))
    backbone = load_backbone(**asdict(job.model))
    heads = heads.requires_grad_(False).eval().to(backbone.device)
    overrides = {option: value for option, value in asdict(job.sampling).items() if value is not None}
    case = Case(
        config=config,
        heads=heads,
        backbone=backbone,
        sampling=replace(backbone.sampling, **overrides),
        painter=_painter(name, heads, backbone),
        painter_name=name,
        rollouts=paint_plainly(backbone, _spread(own, job.images), config.sampling, job.seed),
        seed=job.seed,
    )
    report = Report()
    for proof in examine(case):
        report.add(proof)
    print(f"{report.table()}\n{first_cause(report.proofs)}")
    return report.failed


def _painter(name: str, heads: DraftHeads, backbone: Backbone) -> Method | None:
    """The decoder that counts what is accepted; none if the heads cannot read the states."""
    options = decoder_options(name)
    method = options.pop("name")
    needed = HEADS.get(method)
    return None if heads.width != backbone.width or needed is None else build_method(method, options, heads)


def _spread(prompts: Sequence[str], count: int) -> list[str]:
    """Different prompts from all over a list."""
    different = list(dict.fromkeys(prompts))
    return [different[i * len(different) // count] for i in range(min(count, len(different)))]
