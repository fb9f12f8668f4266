"""The results as tables for papers and spreadsheets: Markdown, LaTeX, CSV.

Columns stand in the order of the papers' tables: method, lossless, steps, latency, FID, CLIP, DPG, GenEval;
what else was measured follows.
"""

import csv
import io
from collections.abc import Callable
from dataclasses import asdict

from eval.columns import NLL, column
from eval.latency.tables import latency_markdown
from eval.results import DecoderResult, Results, Score
from eval.table import MISSING, delta_cells, interval, score_names

Cell = Callable[[DecoderResult], str]

PAPERS = ("clip", "dpg", "geneval")
"""Scores that papers print, in their order; FID stands before them."""


def paper_columns(results: Results) -> dict[str, Cell]:
    """Title -> cell; what no decoder has is left out."""
    names = score_names(results)
    order = [name for kind in PAPERS for name in names if name.partition("/")[0] == kind]
    order += [name for name in names if name not in order]
    cells: dict[str, Cell] = {
        "Method": lambda decoder: decoder.name,
        "Lossless": lambda decoder: "yes" if decoder.lossless else "no",
        "Step x": lambda decoder: f"{decoder.step_compression:.2f}",
        "Latency x": lambda decoder: interval(decoder.speedup, "{:.2f}"),
        "Fréchet to real": lambda decoder: _distance(decoder, "frechet_real"),
        **{column(name).title: _score_cell(name) for name in order},
        "Forwards": lambda decoder: f"{decoder.forwards:.1f}",
        "NLL - AR": lambda decoder: _nll(decoder, results.baseline),
        "Fréchet to AR": lambda decoder: _distance(decoder, "frechet_ar"),
    }
    return {
        title: cell
        for title, cell in cells.items()
        if any(cell(decoder) != MISSING for decoder in results.decoders)
    }


def _score_cell(name: str) -> Cell:
    def cell(decoder: DecoderResult) -> str:
        if decoder.quality is None or name not in decoder.quality.scores:
            return MISSING
        return column(name).text(decoder.quality.scores[name].value.value)

    return cell


def _distance(decoder: DecoderResult, which: str) -> str:
    found = None if decoder.quality is None else getattr(decoder.quality, which)
    return MISSING if found is None else f"{found.value:.2f}"


def _nll(decoder: DecoderResult, baseline: str) -> str:
    if decoder.quality is None:
        return MISSING
    return delta_cells(decoder.quality.nll_delta, NLL, decoder.name == baseline)[0]


def markdown_table(results: Results) -> str:
    """A GitHub table, and what it is of."""
    columns = paper_columns(results)
    lines = [
        "| " + " | ".join(columns) + " |",
        "| " + " | ".join("---" if index < 2 else "--:" for index in range(len(columns))) + " |",
    ]
    for decoder in results.decoders:
        lines.append("| " + " | ".join(_marked(cell(decoder)) for cell in columns.values()) + " |")
    whole = "\n".join(lines) + f"\n\n{_caption(results)}\n"
    return whole if results.latency is None else f"{whole}\n{latency_markdown(results)}"


def _marked(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def latex_table(results: Results) -> str:
    """A `tabular` with booktabs rules, in a `table` with its caption."""
    columns = paper_columns(results)
    head = " & ".join(_escaped(title) for title in columns)
    rows = [
        " & ".join(_escaped(cell(decoder)) for cell in columns.values()) + r" \\"
        for decoder in results.decoders
    ]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{ll{'r' * (len(columns) - 2)}}}",
            r"\toprule",
            head + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{_escaped(_caption(results))}}}",
            r"\end{table}",
            "",
        ]
    )


LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
}


def _escaped(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def _caption(results: Results) -> str:
    sampling = ", ".join(
        f"{name} {value:g}" for name, value in asdict(results.sampling).items() if value is not None
    )
    quality = next((decoder.quality.images for decoder in results.decoders if decoder.quality), 0)
    return (
        f"{results.subject.backbone} on {results.environment.device} ({results.environment.dtype}), "
        f"{sampling}: {results.plan.images} timed images a method at batch 1, {quality} for quality; "
        f"speed-ups over {results.baseline} in the same loop, 95 % intervals in brackets."
    )


def csv_table(results: Results) -> str:
    """A row a decoder, every figure in a column of its own, ready to be appended to others."""
    names = score_names(results)
    file = io.StringIO()
    rows = [_flat(results, decoder, names) for decoder in results.decoders]
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _flat(results: Results, decoder: DecoderResult, names: list[str]) -> dict[str, object]:
    row: dict[str, object] = {
        "created": results.created,
        "backbone": results.subject.backbone,
        "fingerprint": results.subject.fingerprint,
        "suite": results.suite,
        "device": results.environment.device,
        "decoder": decoder.name,
        "lossless": decoder.lossless,
        "timed_images": decoder.latency.n,
        "forwards": decoder.forwards,
        "step_compression": decoder.step_compression,
        **{f"latency_{name}": value for name, value in asdict(decoder.latency).items() if name != "n"},
        **_spelled("speedup", asdict(decoder.speedup)),
    }
    quality = decoder.quality
    row["quality_images"] = None if quality is None else quality.images
    row |= _spelled("nll", {} if quality is None else asdict(quality.nll))
    row |= _spelled("nll_delta", {} if quality is None else asdict(quality.nll_delta), delta=True)
    for distance in ("frechet_ar", "frechet_real"):
        found = None if quality is None else getattr(quality, distance)
        row[distance] = None if found is None else found.value
    for name in names:
        score: Score | None = None if quality is None else quality.scores.get(name)
        row |= _spelled(name, {} if score is None else asdict(score.value))
        row |= _spelled(f"{name}_delta", {} if score is None else asdict(score.delta), delta=True)
    return row


def _spelled(name: str, figures: dict[str, object], delta: bool = False) -> dict[str, object]:
    parts = ("low", "high", *(("detectable", "margin", "equivalent") if delta else ()))
    return {name: figures.get("value"), **{f"{name}_{part}": figures.get(part) for part in parts}}
