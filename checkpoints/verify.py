"""Proves that a bundle is whole: one line a proof, and with the backbone that it fits it."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from backbones.contract import Backbone
from backbones.proof import Proof, timed
from backbones.registry import load_backbone
from backbones.report import Report
from checkpoints.bundle import weights_path
from checkpoints.config import CONFIG_FILE, BundleConfig, read_config
from checkpoints.custom import CODE_FILE, is_shipped, names_in
from checkpoints.hub import FILES
from checkpoints.measured import RESULTS_FILE, read_measured
from checkpoints.weights import read_weights, require_publishable

SCHEMA, WEIGHTS, RESULTS, OTHERS, BACKBONE = "config", "weights", "results", "files", "backbone"
CODE = "code"


def verify(report: Report, folder: Path, model: Mapping[str, str | None] | None) -> None:
    """Adds every proof to `report` as it finishes.

    Args:
        report: takes the lines.
        folder: of the bundle.
        model: the options of the backbone; none leaves it unproved.

    Raises:
        RowcastError: if the backbone cannot be loaded.
    """
    configs: list[BundleConfig] = []
    report.add(timed(SCHEMA, lambda: _config(folder, configs)))
    for config in configs:
        report.add(timed(WEIGHTS, lambda config=config: _weights(folder, config)))
        report.add(timed(RESULTS, lambda config=config: _results(folder, config)))
        report.add(timed(OTHERS, lambda config=config: _others(folder, config)))
        if (folder / CODE_FILE).exists():
            report.add(timed(CODE, lambda: _code(folder)))
        report.add(_backbone(config, model))


def _config(folder: Path, configs: list[BundleConfig]) -> Proof:
    config = read_config(folder)
    configs.append(config)
    found = f"{config.heads.name} heads for {config.backbone.name}"
    return Proof(expected=f"a {CONFIG_FILE} that this version reads", found=found, ok=True)


def _weights(folder: Path, config: BundleConfig) -> Proof:
    path = weights_path(folder, config)
    heads = read_weights(path, config.heads, config.weights_sha256)
    require_publishable(path, heads)
    count = sum(weight.numel() for weight in heads.parameters())
    return Proof(
        expected="names, shapes, dtypes and SHA-256 of the config, all finite",
        found=f"{count:,} weights in {config.heads.dtype}, {config.weights_sha256[:16]}",
        ok=True,
    )


def _results(folder: Path, config: BundleConfig) -> Proof:
    measured = read_measured(folder, config)
    expected = f"a {RESULTS_FILE} of these heads"
    if measured is None:
        return Proof(expected=expected, found="none: they were not measured", ok=None)
    return Proof(expected=expected, found=f"{len(measured.decoders)} decoders on {measured.device}", ok=True)


def _others(folder: Path, config: BundleConfig) -> Proof:
    own = {*FILES, weights_path(folder, config).name}
    others = sorted(names_in(folder) - own)
    return Proof(
        expected="the files of a bundle and no others",
        found=f"{', '.join(others)[:80]} beside them" if others else "no others",
        ok=not others,
        advice="publishing leaves them out; never run or unpickle what came with heads",
    )


def _code(folder: Path) -> Proof:
    shipped = is_shipped(folder)
    return Proof(
        expected=f"the {CODE_FILE} that comes with this Rowcast, byte for byte",
        found="the very same" if shipped else "another",
        ok=shipped,
        advice="never run it; publish the heads again with custom_generate=true",
    )


def _backbone(config: BundleConfig, model: Mapping[str, str | None] | None) -> Proof:
    """Outside of `timed`, since a backbone that cannot be loaded proves nothing about the heads."""
    trained = config.backbone
    expected = f"{trained.name} with the fingerprint {trained.fingerprint[:16]}"
    if model is None:
        found = f"no backbone to compare: pass +model={trained.name}"
        return Proof(name=BACKBONE, expected=expected, found=found, ok=None)
    start = time.perf_counter()
    proof = _fit(config, load_backbone(**model), expected)  # pyright: ignore[reportArgumentType]
    return replace(proof, name=BACKBONE, seconds=time.perf_counter() - start)


def _fit(config: BundleConfig, backbone: Backbone, expected: str) -> Proof:
    live = type(config.backbone).of(backbone)
    differing = config.backbone.differences(live)
    facts = [f"{name} {getattr(live, name)}" for name in differing]
    if config.heads.width != live.width:
        facts.append(f"width {live.width} for heads of {config.heads.width}")
    return Proof(
        expected=expected,
        found=", ".join(facts)[:200] if facts else f"{live.name} {live.fingerprint[:16]}",
        ok=not facts,
        advice="load it as it was for the heads (weights, size, dtype), or train heads for this one",
    )
