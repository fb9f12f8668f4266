"""The figures of a benchmark as rows of plain text, for the card and for the terminal."""

from collections.abc import Sequence

from checkpoints.measured import Decoder, Measured

FEW = 8
"""Images below which a bootstrap interval says little."""
MISSING = "-"

Table = tuple[list[str], list[list[str]]]
"""Heading and rows."""


def decoder_table(measured: Measured) -> Table:
    """Speed and likelihood of every decoder, and of the control; what was not measured is left out."""
    heading = ["decoder", "law", "forwards", "steps", "latency, median (IQR)", "speed-up (95 %)"]
    rows = [
        [
            decoder.name,
            decoder.law,
            f"{decoder.forwards:.4g}",
            f"{decoder.steps:.2f}x",
            f"{1000 * decoder.median:.0f} ms ({1000 * decoder.q1:.0f} to {1000 * decoder.q3:.0f})",
            "baseline" if decoder.name == measured.baseline else decoder.speedup.text("{:.2f}", "x"),
        ]
        for decoder in measured.decoders
    ]
    if all(decoder.nll_delta is None for decoder in measured.decoders):
        return heading, rows
    heading.append(f"NLL - {measured.baseline}, nats a token (95 %)")
    for row, decoder in zip(rows, measured.decoders, strict=True):
        row.append(_delta(decoder, measured.baseline))
    if measured.control is not None:
        name = f"{measured.baseline}, second seed"
        rows.append([name, "control", *[MISSING] * 4, measured.control.text("{:+.2f}")])
    return heading, rows


def acceptance_table(measured: Measured, labels: Sequence[str]) -> Table | None:
    """Share of each head's drafts that the first round accepted, by decoder; none where no head drafted."""
    drafting = [decoder for decoder in measured.decoders if decoder.acceptance.keys() & set(labels)]
    if not drafting:
        return None
    return ["decoder", *labels], [
        [decoder.name, *(_share(decoder, label) for label in labels)] for decoder in drafting
    ]


def notes(measured: Measured) -> list[str]:
    """What a reader has to know beside the figures, in sentences."""
    base = measured.baseline
    lines = [
        f"{measured.images} images a decoder, painted one at a time, the decoders taking turns, on "
        f"{measured.device} ({measured.software}), {measured.created[:10]}.",
        f"A forward is one call of the backbone on a guidance pair; steps are forwards of {base} over those "
        "of the decoder; the speed-up is the geometric mean over prompts of paired latencies.",
    ]
    if any(decoder.nll_delta for decoder in measured.decoders):
        lines.append(
            "NLL is how unlikely the backbone itself finds the tokens, over "
            f"{measured.quality_images} images a decoder; the control is {base} again with another seed, so "
            "its figure is chance."
        )
    if measured.images < FEW:
        lines.append(f"Intervals of fewer than {FEW} images are too narrow to trust.")
    return lines


def _delta(decoder: Decoder, baseline: str) -> str:
    if decoder.name == baseline:
        return "baseline"
    return MISSING if decoder.nll_delta is None else decoder.nll_delta.text("{:+.2f}")


def _share(decoder: Decoder, label: str) -> str:
    accepted, examined = decoder.acceptance.get(label, (0, 0))
    return f"{100 * accepted / examined:.0f} %" if examined else MISSING
