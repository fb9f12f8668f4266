"""A comparison of two benchmarks on the terminal: a table for people, then one JSON line for machines."""

import json
from dataclasses import asdict

from eval.compare import Comparison, Verdict
from eval.table import MISSING, change, render


def comparison_table(found: Comparison) -> str:
    """A line a test, what it means, and the JSON line."""
    heading = ["decoder", "figure", "before", "after", "change (95 %)", "detectable", "margin", "verdict"]
    worse = [f"{verdict.decoder} {verdict.figure.name}" for verdict in found.regressions]
    lines = [
        render(heading, [_row(verdict) for verdict in found.verdicts]),
        "",
        f"{found.images} images of all decoders together that both have; changes are paired by prompt, "
        "bootstrapped within categories",
        "forwards and latency are geometric means; latency never counts",
    ]
    if found.alone:
        lines.append(f"in one of them alone: {', '.join(found.alone)}")
    lines += [f"regressions: {', '.join(worse) or 'none'}", _json_line(found, worse)]
    return "\n".join(lines)


def _row(verdict: Verdict) -> list[str]:
    known, delta = verdict.figure, verdict.delta
    return [
        verdict.decoder,
        known.title,
        known.text(verdict.before),
        known.text(verdict.after),
        change(delta, known),
        MISSING if delta.detectable is None else known.change(delta.detectable, sign=False),
        MISSING if delta.margin is None else known.change(delta.margin, sign=False),
        verdict.text,
    ]


def _json_line(found: Comparison, worse: list[str]) -> str:
    tests = [
        {
            "decoder": verdict.decoder,
            "figure": verdict.figure.name,
            "before": verdict.figure.shown(verdict.before),
            "after": verdict.figure.shown(verdict.after),
            "delta": asdict(verdict.delta),
            "delta_is": "log ratio" if verdict.figure.ratio else "difference",
            "p_worse": verdict.p_worse,
            "verdict": verdict.text,
        }
        for verdict in found.verdicts
    ]
    whole = {"images": found.images, "regressions": worse, "alone": found.alone, "tests": tests}
    return json.dumps(whole, separators=(",", ":"))
