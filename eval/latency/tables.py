"""The sweep as a table: on the terminal, in the page, in Markdown and as CSV."""

import csv
import io
from dataclasses import asdict

from eval.latency.figures import Cell, Latency
from eval.results import Results

MISSING = "-"
GIB = 2**30
SHOWN = ("prefill", "draft", "forward", "verify")
"""Phases with a column of their own; committing and the rest share one."""
FIGURES = [
    "forwards",
    "s a batch (IQR)",
    "images/s",
    "speed-up",
    "ms a forward",
    "floor ms",
    "of floor",
]
HEADING = ["decoder", "batch", *FIGURES, *(f"{phase} %" for phase in SHOWN), "rest %", "peak GiB"]


def latency_rows(results: Results) -> list[list[str]]:
    """A row a decoder and batch size; of a cell that could not be measured, the notes say why."""
    latency = _of(results)
    rows = []
    for key, row in latency_cells(results).items():
        cell = latency.cell(*key)
        ends = [MISSING] * (len(SHOWN) + 2) if cell is None else [*_shares(cell), peak(cell)]
        rows.append([*row, *ends])
    return rows


def latency_cells(results: Results) -> dict[tuple[str, int], list[str]]:
    """By decoder and batch size: the two, and the columns of `FIGURES`."""
    latency = _of(results)
    rows = {}
    for decoder in results.decoders:
        name = decoder.name if decoder.name in latency.fixed else f"{decoder.name} *"
        for batch in latency.plan.batches:
            cell = latency.cell(decoder.name, batch)
            figures = [MISSING] * len(FIGURES) if cell is None else _figures(results, latency, cell)
            rows[decoder.name, batch] = [name, str(batch), *figures]
    return rows


def _of(results: Results) -> Latency:
    assert results.latency is not None
    return results.latency


def speedup(results: Results, latency: Latency, cell: Cell) -> float | None:
    """Over the baseline at the same batch size; none where that was not measured."""
    slow = latency.cell(results.baseline, cell.batch)
    return None if slow is None else slow.seconds / cell.seconds


def _figures(results: Results, latency: Latency, cell: Cell) -> list[str]:
    step, floor = cell.seconds / cell.forwards, latency.floor(cell)
    gain = speedup(results, latency, cell)
    return [
        f"{cell.forwards:.4g}",
        _range(cell),
        f"{cell.batch / cell.seconds:.3g}",
        MISSING if gain is None else f"{gain:.2f}x",
        f"{1000 * step:.3g}",
        f"{1000 * floor:.3g}",
        f"{100 * floor / step:.3g} %",
    ]


def _shares(cell: Cell) -> list[str]:
    rest = sum(share for phase, share in cell.phases.items() if phase not in SHOWN)
    return [*(f"{100 * cell.phases[phase]:.0f}" for phase in SHOWN), f"{100 * rest:.0f}"]


def peak(cell: Cell) -> str:
    """The most memory, in GiB."""
    return MISSING if cell.peak_bytes is None else f"{cell.peak_bytes / GIB:.1f}"


def _range(cell: Cell) -> str:
    return f"{cell.seconds:.3g} ({cell.latency.q1:.3g} to {cell.latency.q3:.3g})"


def latency_notes(results: Results) -> list[str]:
    """What a reader has to know beside the figures."""
    latency = _of(results)
    short, long = latency.windows
    first, rows = latency.first_row, results.subject.grid.rows
    lines = [
        f"latency: extrapolated to {rows} rows from windows of {short} and {long} rows, row {first} of the "
        f"image on, below random rows; median of up to {latency.plan.repeats} pairs, decoders taking turns; "
        "phases from a pair of its own",
        f"floor: the trunk's {latency.weight_bytes / 1e9:.3g} GB of weights and the cache, read once a "
        f"forward at {latency.copy_rate / 1e9:.3g} GB/s, the rate of a copy of "
        f"{latency.copied_bytes / 2**20:.0f} MiB on this device (read and written)",
    ]
    if any(latency.floor(cell) > cell.seconds / cell.forwards for cell in latency.cells):
        lines.append("of floor above 100 %: the weights fit into a cache that is faster than the memory")
    if all(cell.peak_bytes is None for cell in latency.cells):
        lines.append("peak: not counted on a CPU")
    else:
        lines.append("peak: most memory allocated, weights and every decoder's heads among it")
    free = [decoder.name for decoder in results.decoders if decoder.name not in latency.fixed]
    if free:
        why = "acceptance untrained: the row says nothing" if results.untrained else "from few rows alone"
        lines.append(f"*: forwards depend on what is drawn ({why}): {', '.join(free)}")
    reasons: dict[str, list[str]] = {}
    for entry in latency.skipped:
        reasons.setdefault(entry.reason, []).append(f"{entry.decoder} at {entry.batch}")
    lines += [f"not measured, {reason}: {', '.join(cells)}" for reason, cells in reasons.items()]
    return lines


def images_per_second(latency: Latency) -> dict[str, dict[str, float]]:
    """By decoder and batch size."""
    rates: dict[str, dict[str, float]] = {}
    for cell in latency.cells:
        rates.setdefault(cell.decoder, {})[str(cell.batch)] = round(cell.batch / cell.seconds, 5)
    return rates


def latency_markdown(results: Results) -> str:
    """A GitHub table and its notes."""
    lines = [
        "| " + " | ".join(HEADING) + " |",
        "| --- |" + " --: |" * (len(HEADING) - 1),
        *("| " + " | ".join(row).replace("*", "\\*") + " |" for row in latency_rows(results)),
    ]
    notes = "\n".join(f"- {line.replace('*', chr(92) + '*')}" for line in latency_notes(results))
    return "\n".join(lines) + f"\n\n{notes}\n"


def latency_csv(results: Results) -> str:
    """A row a cell, every figure in a column of its own, ready to be appended to others."""
    latency = _of(results)
    file = io.StringIO()
    names = [name for cell in latency.cells for name in _flat(results, latency, cell)]
    writer = csv.DictWriter(file, list(dict.fromkeys(names)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(_flat(results, latency, cell) for cell in latency.cells)
    return file.getvalue()


def _flat(results: Results, latency: Latency, cell: Cell) -> dict[str, object]:
    row = asdict(cell)
    phases, spread = row.pop("phases"), row.pop("latency")
    return {
        "created": results.created,
        "backbone": results.subject.backbone,
        "device": results.environment.device,
        "dtype": results.environment.dtype,
        "untrained": " ".join(results.untrained),
        **row,
        **{f"seconds_{name}": value for name, value in spread.items()},
        "fixed_forwards": cell.decoder in latency.fixed,
        "images_per_second": cell.batch / cell.seconds,
        "speedup": speedup(results, latency, cell),
        "floor_seconds_per_forward": latency.floor(cell),
        "copy_bytes_per_second": latency.copy_rate,
        **{f"share_{phase}": share for phase, share in phases.items()},
    }
