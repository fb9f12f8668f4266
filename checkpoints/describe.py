"""What a bundle is, in a few lines for the terminal; its weights are not needed for that."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from checkpoints.config import CONFIG_FILE, BundleConfig, read_config
from checkpoints.custom import CODE_FILE, is_shipped
from checkpoints.figures import acceptance_table, decoder_table, notes
from checkpoints.markdown import flat, shown
from checkpoints.measured import read_measured
from checkpoints.weights import WEIGHTS_FILE, heads_without_memory


def describe(folder: Path, place: str) -> str:
    """The text.

    Args:
        folder: of the bundle.
        place: what the user called it.

    Raises:
        RowcastError: if it is missing or damaged.
    """
    config = read_config(folder)
    measured = read_measured(folder, config)
    heads = heads_without_memory(folder / WEIGHTS_FILE, config.heads)
    count = sum(weight.numel() for weight in heads.parameters())
    lines = [f"{config.heads.name} heads for {config.backbone.name}: {place}"]
    lines += [f"  {name:<12}{text}" for name, text in _facts(config, heads.labels, count)]
    if (folder / CODE_FILE).exists():
        whose = "as it comes with this Rowcast" if is_shipped(folder) else "not Rowcast's own: never run it"
        lines.append(f"  {'code':<12}{CODE_FILE} for plain transformers, {whose}")
    if measured is None:
        lines += ["", "not measured: `python -m eval` with these heads measures speed and quality"]
    else:
        lines += ["", *_aligned(*decoder_table(measured))]
        accepted = acceptance_table(measured, heads.labels)
        if accepted is not None:
            lines += ["", "accepted in the first round, by head:", *_aligned(*accepted)]
        lines += ["", *notes(measured)]
    return "\n".join(_printable(line) for line in lines)


def _facts(config: BundleConfig, labels: Sequence[str], count: int) -> Iterator[tuple[str, str]]:
    backbone = config.backbone
    yield "drafts", ", ".join(labels)
    yield "options", _listed(asdict(config.heads.options))
    yield "weights", f"{count:,} in {config.heads.dtype}, sha256 {config.weights_sha256}"
    yield (
        "backbone",
        f"{backbone.name}, {backbone.rows}x{backbone.cols} tokens of {backbone.codes} codes, "
        f"{backbone.width} wide, {backbone.dtype}, {backbone.states} states",
    )
    yield "its weights", "local, or with Rowcast" if backbone.source is None else backbone.source
    yield "fingerprint", backbone.fingerprint
    yield "sampling", _listed(asdict(config.sampling))
    yield "training", _listed(config.training)
    yield "validation", _listed(config.metrics)
    yield "schema", f"{config.schema_version}, in {CONFIG_FILE}"


def _listed(values: dict[str, object]) -> str:
    return ", ".join(f"{name} {shown(value)}" for name, value in flat(values)) or "none given"


def _aligned(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    table = [heading, *rows]
    widths = [max(len(line[column]) for line in table) for column in range(len(heading))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    ]


def _printable(text: str) -> str:
    """Without what would steer the terminal, since a bundle may come from anybody."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
