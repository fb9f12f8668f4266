"""The figures of a benchmark on the terminal: tables for people, then one JSON line for machines."""

import json
from collections.abc import Sequence
from pathlib import Path

from eval.columns import NLL, Column, column, ordered
from eval.latency.tables import HEADING, images_per_second, latency_notes, latency_rows
from eval.paired import Delta
from eval.results import DecoderResult, Frechet, Quality, Results
from eval.statistics import Interval, Spread

MISSING = "-"
BASELINE = "baseline"


def speed_rows(results: Results) -> tuple[list[str], list[list[str]]]:
    """Heading and one row per decoder."""
    heading = ["decoder", "law", "forwards", "steps", "latency ms (IQR)", "p90", "speed-up (95 %)", "engine"]
    rows = [
        [
            decoder.name,
            law(decoder),
            f"{decoder.forwards:.4g}",
            f"{decoder.step_compression:.2f}x",
            milliseconds(decoder.latency),
            f"{1000 * decoder.latency.p90:.0f}",
            BASELINE if decoder.name == results.baseline else interval(decoder.speedup, "{:.2f}", unit="x"),
            f"{decoder.engine_ratio:.2f}x",
        ]
        for decoder in results.decoders
    ]
    return heading, rows


def quality_rows(results: Results) -> tuple[list[str], list[list[str]]]:
    """Heading, one row per decoder and the control's; columns that no decoder has are left out."""
    margin = column(NLL).margin
    heading = ["decoder", "law", "NLL", "minus AR (95 %)", "detectable", f"within ±{margin:g}"]
    heading += ["Fréchet to AR", "to real"]
    names = score_names(results)
    heading += [column(name).title for name in names]
    rows = [
        [
            decoder.name,
            law(decoder),
            *_quality_cells(decoder.quality, decoder.name == results.baseline, names),
        ]
        for decoder in results.decoders
        if decoder.quality
    ]
    if results.control:
        cells = _quality_cells(results.control, False, names)
        rows.append([f"{results.baseline}, second seed", "control", *cells])
    kept = [index for index in range(len(heading)) if any(row[index] != MISSING for row in rows)]
    return [heading[index] for index in kept], [[row[index] for index in kept] for row in rows]


def score_names(results: Results) -> list[str]:
    """The columns that any decoder has."""
    return ordered({name for found in results.decoders if found.quality for name in found.quality.scores})


def _quality_cells(quality: Quality, baseline: bool, names: Sequence[str]) -> list[str]:
    return [
        f"{quality.nll.value:.3f}",
        *delta_cells(quality.nll_delta, NLL, baseline),
        _frechet(quality.frechet_ar),
        _frechet(quality.frechet_real),
        *(
            column(name).text(quality.scores[name].value.value) if name in quality.scores else MISSING
            for name in names
        ),
    ]


def delta_cells(delta: Delta, name: str, baseline: bool) -> list[str]:
    """The difference with its interval, what could have been seen, and what the test says."""
    if baseline:
        return [BASELINE, MISSING, MISSING]
    known = column(name)
    seen = MISSING if delta.detectable is None else known.change(delta.detectable, sign=False)
    return [change(delta, known), seen, verdict(delta)]


def change(delta: Interval, known: Column) -> str:
    """A difference with its interval."""
    whole = known.change(delta.value)
    if delta.low is None or delta.high is None:
        return whole
    return f"{whole} ({known.change(delta.low)} to {known.change(delta.high)})"


def verdict(delta: Delta) -> str:
    """What an equivalence test and the interval say together."""
    if delta.low is None or delta.high is None or delta.equivalent is None:
        return MISSING
    if delta.equivalent:
        return "yes"
    return "differs" if delta.low > 0 or delta.high < 0 else "undecided"


def law(decoder: DecoderResult) -> str:
    """Whether the images follow the backbone's own law."""
    return "lossless" if decoder.lossless else "lossy"


def interval(value: Interval, form: str, unit: str = "") -> str:
    """`2.71x (2.60 to 2.83)`; the value alone where there is no interval."""
    whole = form.format(value.value) + unit
    if value.low is None or value.high is None:
        return whole
    return f"{whole} ({form.format(value.low)} to {form.format(value.high)})"


def milliseconds(latency: Spread) -> str:
    """Median and quartiles of a latency in seconds, as milliseconds."""
    return f"{1000 * latency.median:.0f} ({1000 * latency.q1:.0f} to {1000 * latency.q3:.0f})"


def _frechet(distance: Frechet | None) -> str:
    return MISSING if distance is None else f"{distance.value:.2f}"


FEW = 8
"""Images below which a bootstrap interval says little."""


def notes(results: Results) -> list[str]:
    """What a reader has to know beside the figures."""
    lines = [
        f"speed: {results.plan.images} images a decoder, one at a time, decoders taking turns, "
        f"on {results.environment.device}, torch threads: {results.environment.threads}"
    ]
    lines.append("engine: decoding time over the time inside the backbone's forwards; 1.00x would be free")
    if results.untrained:
        lines.append(
            f"untrained {' and '.join(results.untrained)}: for timing alone, images and acceptance mean "
            "nothing; only decoders whose forwards do not depend on what is drawn are as fast as they look"
        )
    if results.plan.images < FEW:
        lines.append(f"intervals of fewer than {FEW} images are too narrow to trust: raise benchmark.images")
    if results.sessions > 1:
        lines.append(
            f"the timed images spread over {results.sessions} starts of the benchmark: "
            "latencies of different starts are less comparable"
        )
    if results.environment.omp_wait_policy == "PASSIVE" and results.environment.threads > 1:
        lines.append("OMP_WAIT_POLICY=PASSIVE slows several threads down: unset it for true latencies")
    if results.processes > 1:
        lines.append(
            f"{results.processes} processes shared the images: on one machine they slow each other down"
        )
    if results.control:
        lines.append(
            f"quality: {results.control.images} images a decoder; the control is the baseline again with "
            "another seed, so its distance from the baseline is chance"
        )
        lines.append(
            "detectable: the difference such a run finds in four of five repetitions; within: yes where two "
            "one-sided tests at 5 % show it, differs where the interval leaves 0 out, else undecided"
        )
    if results.ladder:
        gain = interval(results.ladder.loop_gain, "{:.2f}", unit="x")
        lines.append(
            f"ladder: our autoregression is {gain} as fast as {results.ladder.loop}; speed-ups are over "
            "our autoregression, so this gain is not in them"
        )
    sizes = {d.quality.frechet_real.n for d in results.decoders if d.quality and d.quality.frechet_real}
    if sizes:
        lines.append(
            f"Fréchet distances are between sets of {max(sizes)} images; they grow as sets shrink, so the "
            "baseline's distance to its second seed is the zero of that column"
        )
    return lines


def render(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns: the first two to the left, figures to the right."""
    table = [heading, *rows]
    widths = [max(len(row[index]) for row in table) for index in range(len(heading))]
    lines = [
        "  ".join(
            cell.ljust(width) if index < 2 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def terminal_table(results: Results) -> str:
    """Speed, quality and notes, for people."""
    parts = [render(*speed_rows(results))]
    if results.control:
        parts.append(render(*quality_rows(results)))
    lines = notes(results)
    if results.latency:
        parts.append(render(HEADING, latency_rows(results)))
        lines += latency_notes(results)
    return "\n\n".join([*parts, "\n".join(lines)])


def json_line(results: Results, report: Path) -> str:
    """The headline figures of every decoder as one line of JSON."""
    decoders = {
        decoder.name: {
            "lossless": decoder.lossless,
            "forwards": round(decoder.forwards, 4),
            "step_compression": round(decoder.step_compression, 4),
            "latency_s": round(decoder.latency.median, 6),
            "speedup": round(decoder.speedup.value, 4),
            "engine_ratio": round(decoder.engine_ratio, 4),
            "nll": None if decoder.quality is None else round(decoder.quality.nll.value, 5),
        }
        for decoder in results.decoders
    }
    line: dict[str, object] = {"backbone": results.subject.backbone, "decoders": decoders}
    if results.untrained:
        line["untrained"] = results.untrained
    if results.latency is not None:
        line["images_per_s"] = images_per_second(results.latency)
    line["report"] = str(report)
    return json.dumps(line, separators=(",", ":"))
