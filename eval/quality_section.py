"""The report's part about quality: Pareto plots, the table, and each score's difference."""

from html import escape

from eval.columns import column
from eval.page import section, table, tag, tagged
from eval.plot import Point, tradeoff_plot
from eval.results import DecoderResult, Quality, Results
from eval.table import delta_cells, interval, law, quality_rows, score_names


def quality_section(results: Results) -> str | None:
    """None where no quality was measured."""
    judged = [decoder for decoder in results.decoders if decoder.quality]
    if not judged:
        return None
    note = (
        "NLL is how unlikely the backbone itself finds the tokens, in nats a token; the baseline's is the "
        "mark to meet. It is far more sensitive than Fréchet distance at these set sizes. Filled marks are "
        "lossless, hollow ones lossy; bars and the baseline's band are 95 %; the line joins those that no "
        "other beats in both."
    )
    heading, rows = quality_rows(results)
    forwards = [
        _point(decoder, decoder.quality, decoder.forwards, "forwards")
        for decoder in judged
        if decoder.quality
    ]
    latency = [
        _point(decoder, decoder.quality, 1000 * decoder.latency.median, "ms")
        for decoder in judged
        if decoder.quality
    ]
    axis = "NLL, nats a token"
    seconds = tradeoff_plot(latency, results.baseline, "ms an image, median (log scale)", axis)
    return section(
        "Quality",
        note,
        tradeoff_plot(forwards, results.baseline, "forwards an image (log scale)", axis),
        f"<details><summary>The same against latency</summary>{seconds}</details>",
        table(heading, tagged(rows), words=2),
        *(_score_table(results, name) for name in score_names(results)),
    )


def _point(decoder: DecoderResult, quality: Quality, x: float, unit: str) -> Point:
    nll = quality.nll
    return Point(
        name=decoder.name,
        lossless=decoder.lossless,
        x=x,
        y=nll.value,
        low=nll.value if nll.low is None else nll.low,
        high=nll.value if nll.high is None else nll.high,
        tip=f"{decoder.name}: {x:.4g} {unit}, {interval(nll, '{:.3f}')} nats",
    )


def _score_table(results: Results, name: str) -> str:
    """One score: values, paired differences, what could have been seen, and the equivalence test."""
    known = column(name)
    within = "within" if known.margin is None else f"within ±{known.change(known.margin, sign=False)}"
    heading = ["decoder", "law", known.title, "95 %", "minus AR (95 %)", "detectable", within]
    sets = [(decoder.name, law(decoder), decoder.quality) for decoder in results.decoders]
    sets.append((f"{results.baseline}, second seed", "control", results.control))
    rows = []
    for title, kind, quality in sets:
        if quality is None or name not in quality.scores:
            continue
        score = quality.scores[name]
        low, high = score.value.low, score.value.high
        whole = "-" if low is None or high is None else f"{known.text(low)} to {known.text(high)}"
        deltas = delta_cells(score.delta, name, title == results.baseline)
        rows.append([title, tag(kind), known.text(score.value.value), whole, *deltas])
    title = f"{escape(known.title)}: differences and tests"
    return f"<details><summary>{title}</summary>{table(heading, rows, words=2)}</details>"
