"""The head bundle: a folder of safetensors, JSON and a card; Rowcast never unpickles or executes any of it.

    heads.safetensors   the weights of the heads
    config.json         what they are and what they fit; the bundle's point of commitment
    README.md           the card
    results.json        a benchmark of these heads, once there is one
    samples.png         what they painted: from a benchmark, or put there for the card

    custom_generate/generate.py   code with which plain transformers paints, in published bundles that want it

Replacing `config.json` turns an old bundle into a new one in a single step: the new weights are already on
disk by then, under a name made of their hash, and take the usual name afterwards. A process killed anywhere
leaves the old bundle or the new one. The card and the results follow the commitment.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from backbones.contract import Backbone, Sampling
from backbones.durable import rename_durably, write_durably, write_synced
from backbones.errors import RowcastError
from checkpoints.card import CARD_FILE, SAMPLES_FILE, render_card
from checkpoints.config import (
    CONFIG_FILE,
    SCHEMA_VERSION,
    BackboneFacts,
    BundleConfig,
    HeadFacts,
    read_config,
)
from checkpoints.golden import Golden
from checkpoints.json_file import json_text
from checkpoints.measured import RESULTS_FILE
from checkpoints.weights import WEIGHTS_FILE, read_weights, sha256_of, write_weights
from heads.contract import DraftHeads

_FRESH_FILE = f"{WEIGHTS_FILE}.new"


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A loaded bundle."""

    bank: DraftHeads
    """Frozen, on the backbone's device, in the dtype it was saved in."""
    config: BundleConfig


def save_bundle(
    folder: str | Path,
    bank: DraftHeads,
    *,
    backbone: Backbone,
    sampling: Sampling,
    training: Mapping[str, object],
    metrics: Mapping[str, object],
    golden: Golden | None = None,
) -> None:
    """Writes a bundle into `folder`, in place of the one that may be there; other files stay.

    Args:
        folder: made when missing.
        bank: the heads; their dtype is the stored one.
        backbone: what the heads were trained for.
        sampling: what the training images were sampled with.
        training: how the heads were trained, as JSON values.
        metrics: how they did, as JSON values.
        golden: what the backbone computes, so that `python -m eval doctor` can tell when it no longer does.

    Raises:
        RowcastError: if the heads do not fit the backbone, a value is not finite, or the disk refuses;
            a bundle that was there before is still whole.
    """
    folder = Path(folder)
    fresh = folder / _FRESH_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_synced(fresh, partial(write_weights, bank=bank))
        config = BundleConfig(
            schema_version=SCHEMA_VERSION,
            heads=HeadFacts.of(bank),
            backbone=BackboneFacts.of(backbone),
            sampling=sampling,
            training=dict(training),
            metrics=dict(metrics),
            weights_sha256=sha256_of(fresh),
            golden=golden,
        )
        require_fit(folder, config, backbone)
        _commit(folder, fresh, config)
        card = render_card(config, sum(weight.numel() for weight in bank.parameters()), bank.labels)
        write_durably(folder / CARD_FILE, card)
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        with suppress(OSError):
            fresh.unlink()


def load_bundle(folder: str | Path, backbone: Backbone) -> Bundle:
    """Loads the bundle in `folder`, strictly.

    Raises:
        RowcastError: if the bundle is missing, damaged, or made for another backbone.
    """
    folder = Path(folder)
    config = read_config(folder)
    require_fit(folder, config, backbone)
    bank = read_weights(weights_path(folder, config), config.heads, config.weights_sha256)
    return Bundle(bank=bank.requires_grad_(False).eval().to(backbone.device), config=config)


def weights_path(folder: Path, config: BundleConfig) -> Path:
    """Where the weights of `config` are: under their usual name, or still waiting for it after a kill."""
    staged = _staged(folder, config)
    return staged if staged.exists() else folder / WEIGHTS_FILE


def attach_results(folder: str | Path, results: Mapping[str, object]) -> None:
    """Puts the results of a benchmark beside the heads that it ran with, tied to them by their hash.

    Raises:
        RowcastError: if there is no bundle, a number is not finite, or the disk refuses.
    """
    folder = Path(folder)
    tied = {"weights_sha256": read_config(folder).weights_sha256, **results}
    try:
        write_durably(folder / RESULTS_FILE, json_text(tied))
    except OSError as error:
        raise _unwritable(folder, error) from error


def _commit(folder: Path, fresh: Path, config: BundleConfig) -> None:
    """Makes `fresh` the weights and `config` the config of the bundle, as one step."""
    weights, staged = folder / WEIGHTS_FILE, _staged(folder, config)
    other_heads = not weights.exists() or sha256_of(weights) != config.weights_sha256
    text = json_text(config.as_json())
    rename_durably(fresh, staged)
    write_durably(folder / CONFIG_FILE, text)
    rename_durably(staged, weights)
    if other_heads:
        for of_the_old_ones in (RESULTS_FILE, SAMPLES_FILE):
            (folder / of_the_old_ones).unlink(missing_ok=True)
    for left_by_a_kill in folder.glob(f"{_FRESH_FILE}*"):
        left_by_a_kill.unlink()


def _staged(folder: Path, config: BundleConfig) -> Path:
    """Where the weights of `config` wait until it is committed."""
    return folder / f"{_FRESH_FILE}-{config.weights_sha256[:16]}"


def require_fit(folder: Path, config: BundleConfig, backbone: Backbone) -> None:
    """Refuses heads of another backbone.

    Raises:
        RowcastError: saying in what they differ.
    """
    trained, live = config.backbone, BackboneFacts.of(backbone)
    wanted = vars(trained) | {"head width": config.heads.width}
    found = vars(live) | {"head width": live.width}
    differing = trained.differences(live)
    if config.heads.width != live.width:
        differing.append("head width")
    if differing:
        raise RowcastError(
            f"expected the backbone of the heads in {folder} ({_facts(wanted, differing)}), "
            f"found {_facts(found, differing)}; load model={trained.name!r} with "
            f"model.dtype={trained.dtype!r} as it was, or train heads for this one with "
            f"`python -m train model={live.name} heads={config.heads.name}`"
        )


def _facts(values: Mapping[str, object], names: list[str]) -> str:
    return ", ".join(f"{name} {str(values[name])[:40]!r}" for name in names)


def _unwritable(folder: Path, error: OSError) -> RowcastError:
    return RowcastError(
        f"expected to write the head bundle into {folder}, found {error.strerror or error}; "
        "free space there or choose another folder"
    )
