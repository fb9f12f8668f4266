"""The report's parts about cost: the speed table, where the time goes, the ladder, acceptance by head."""

from collections.abc import Mapping
from html import escape

from eval.page import Markup, section, table, tag, tagged
from eval.results import DecoderResult, Ladder, Results, Rung
from eval.statistics import Spread
from eval.table import BASELINE, interval, law, speed_rows

PHASES = (
    ("trunk", "backbone forwards", ("prefill", "forward")),
    ("draft", "drafting and sampling", ("draft",)),
    ("verify", "verify and resample", ("verify",)),
    ("rest", "cache and other", ("commit", "other")),
)


def speed_section(results: Results) -> str:
    """The table, and what the seconds were spent on."""
    heading, rows = speed_rows(results)
    shares = [[decoder.name, share_bar(decoder.seconds)] for decoder in results.decoders]
    note = (
        "Speed-up is the geometric mean over prompts of paired latencies with its 95 % bootstrap interval; "
        "engine is decoding time over time inside backbone forwards (1.00x would be free)."
    )
    phases = table(["decoder", "where the time goes"], shares, words=2) + phase_key()
    few = " open" if len(results.decoders) <= 6 else ""
    return section(
        "Speed",
        note,
        table(heading, tagged(rows), words=2),
        f"<details{few}><summary>Where the time goes</summary>{phases}</details>",
    )


def phase_key() -> str:
    """What the colours of the bars mean."""
    key = "".join(f'<span><i class="{kind}"></i>{escape(meaning)}</span>' for kind, meaning, _ in PHASES)
    return f'<div class="key">{key}</div>'


def share_bar(spent: Mapping[str, float], width: str = "") -> Markup:
    """Where the time went: seconds by phase, and their `total`; `narrow` beside other columns."""
    parts = []
    for kind, meaning, phases in PHASES:
        seconds = sum(spent[phase] for phase in phases)
        share = seconds / spent["total"]
        if share < 0.001:
            continue
        tip = f"{meaning}: {1000 * seconds:.1f} ms, {100 * share:.0f} %"
        parts.append(f'<i class="{kind}" style="flex:{100 * share:.2f}" title="{escape(tip)}"></i>')
    return Markup(f'<div class="share {width}">{"".join(parts)}</div>')


def ladder_section(results: Results) -> str | None:
    """How much of the gain over the model's own library is our loop's, and how much the method's."""
    ladder = results.ladder
    if ladder is None:
        return None
    laws = {decoder.name: law(decoder) for decoder in results.decoders}
    rows = [
        [ladder.loop, "", *_latency(ladder.reference, ladder), "", "", BASELINE],
        [
            f"{results.baseline}, our loop",
            tag(laws[results.baseline]),
            *_latency(ladder.baseline, ladder),
            interval(ladder.loop_gain, "{:.2f}", unit="x"),
            BASELINE,
            interval(ladder.loop_gain, "{:.2f}", unit="x"),
        ],
        *(_rung(rung, ladder, laws[rung.name]) for rung in ladder.rungs),
    ]
    note = (
        f"The same {ladder.images} prompts by the library's own loop, by our autoregression and by our "
        "decoders, interleaved. The gain of a method is over our own autoregression, in the same loop; what "
        "a leaner loop gains by itself stands apart from it."
    )
    heading = ["loop", "law", "median ms", "", "loop gain", "speculation gain (95 %)", "total (95 %)"]
    return section("The ladder", note, table(heading, rows, words=2))


def _rung(rung: Rung, ladder: Ladder, law: str) -> list[str]:
    return [
        rung.name,
        tag(law),
        *_latency(rung.latency, ladder),
        "",
        interval(rung.speculation, "{:.2f}", unit="x"),
        interval(rung.total, "{:.2f}", unit="x"),
    ]


def _latency(latency: Spread, ladder: Ladder) -> list[str]:
    longest = max(
        spread.median for spread in (ladder.reference, ladder.baseline, *(r.latency for r in ladder.rungs))
    )
    width = 120 * latency.median / longest
    return [
        f"{1000 * latency.median:.0f}",
        Markup(f'<span class="track long"><i class="bar" style="width:{width:.0f}px"></i></span>'),
    ]


def acceptance_section(results: Results) -> str | None:
    """A row a head; decoders that draft without heads have a table of their own."""
    drafting = [decoder for decoder in results.decoders if decoder.acceptance]
    if not drafting:
        return None
    groups: dict[tuple[str, ...], list[DecoderResult]] = {}
    for decoder in drafting:
        kinds = {label.partition("+")[0] for label in decoder.acceptance}
        kinds = kinds - {"h", "v"} | ({"spatial"} if kinds & {"h", "v"} else set())
        groups.setdefault(tuple(sorted(kinds)), []).append(decoder)
    note = (
        "Share of drafts that the first verification accepts, by what made them: h+ along the row, v+ down, "
        "t+ along the raster."
    )
    return section("Acceptance by head", note, *(_acceptance_table(group) for group in groups.values()))


def _acceptance_table(drafting: list[DecoderResult]) -> str:
    labels = list(dict.fromkeys(label for decoder in drafting for label in decoder.acceptance))
    rows = [[decoder.name, *(_acceptance_cell(decoder, label) for label in labels)] for decoder in drafting]
    return table(["decoder", *labels], rows)


def _acceptance_cell(decoder: DecoderResult, label: str) -> str:
    if label not in decoder.acceptance:
        return "-"
    accepted, examined = decoder.acceptance[label]
    share = accepted / examined
    bar = f'<span class="track"><i class="bar" style="width:{48 * share:.0f}px"></i></span>'
    return Markup(f'<span title="{accepted} of {examined} drafts">{100 * share:.1f} % {bar}</span>')
