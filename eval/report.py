"""`report.html`: a benchmark on one page that needs nothing else, to be read, kept and sent around."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path

from eval.exhibits import Exhibit, gallery_section
from eval.figures import Point, heat_map, tradeoff_plot
from eval.heads import HeadsSubject
from eval.learning import learning_section
from eval.page import Markup, card, facts, page, section, table, tag
from eval.results import DEFINITIONS, DecoderResult, Results, write_text
from eval.statistics import Interval
from eval.table import interval, law, notes, quality_rows, speed_rows

MAP_ROUNDS = 4
PHASES = (
    ("trunk", "backbone forwards", ("prefill", "forward")),
    ("draft", "drafting and sampling", ("draft",)),
    ("verify", "verify and resample", ("verify",)),
    ("rest", "cache and other", ("commit", "other")),
)


def write_report(results: Results, exhibits: Sequence[Exhibit], path: Path) -> None:
    """Writes the page.

    Raises:
        RowcastError: if the file cannot be written.
    """
    parts = [_headline(results), gallery_section(exhibits, results), _speed(results)]
    if results.control:
        parts.append(_quality(results))
    shown = (_changes(results), _acceptance(results), learning_section(path.parent))
    parts += [part for part in shown if part]
    parts.append(_provenance(results))
    write_text(path, page(f"Rowcast benchmark: {results.subject.backbone}", parts))


def headline_decoder(results: Results) -> DecoderResult:
    """The lossless drafting decoder with the fewest forwards, else the one closest to the baseline's quality.

    The baseline where it stands alone.
    """
    drafting = [decoder for decoder in results.decoders if decoder.name != results.baseline]
    if not drafting:
        return results.decoders[0]
    lossless = [decoder for decoder in drafting if decoder.lossless]
    if lossless:
        return min(lossless, key=lambda decoder: decoder.forwards)
    return min(
        drafting, key=lambda decoder: decoder.quality.nll.value if decoder.quality else -decoder.forwards
    )


def _headline(results: Results) -> str:
    best, subject = headline_decoder(results), results.subject
    baseline = next(decoder for decoder in results.decoders if decoder.name == results.baseline)
    cards = [
        card(f"{best.speedup.value:.2f}x", f"faster than {baseline.name}{_range(best.speedup, '{:.2f}x')}"),
        card(f"{best.forwards:.4g}", f"forwards an image, {baseline.forwards:.4g} by {baseline.name}"),
        card(
            f"{1000 * best.latency.median:.0f} ms",
            f"an image, {1000 * baseline.latency.median:.0f} ms by {baseline.name}",
        ),
    ]
    if best.quality:
        delta = best.quality.nll_delta
        cards.append(
            card(f"{delta.value:+.2f} nats", f"a token against {baseline.name}{_range(delta, '{:+.2f}')}")
        )
    chosen = (
        "the lossless decoder with the fewest forwards"
        if best.lossless
        else f"the drafting decoder nearest to {baseline.name} in quality"
    )
    about = (
        f"{subject.grid.rows}x{subject.grid.cols} tokens, {subject.codes} codes. The figures here are of "
        f"{best.name}, {chosen}; the tables have all."
    )
    title = f"{escape(best.name)} {tag(law(best))} on {escape(subject.backbone)}"
    return (
        f'<header>\n<p class="soft">Rowcast benchmark</p>\n<h1>{title}</h1>\n'
        f'<p class="soft">{escape(about)}</p>\n</header>\n<div class="cards">{"".join(cards)}</div>'
    )


def _range(value: Interval, form: str) -> str:
    if value.low is None or value.high is None:
        return ""
    return f" (95 %: {form.format(value.low)} to {form.format(value.high)})"


def _tagged(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[row[0], tag(row[1]), *row[2:]] for row in rows]


def _speed(results: Results) -> str:
    heading, rows = speed_rows(results)
    shares = [[decoder.name, Markup(_share_bar(decoder))] for decoder in results.decoders]
    key = "".join(f'<span><i class="{kind}"></i>{escape(meaning)}</span>' for kind, meaning, _ in PHASES)
    note = (
        "Speed-up is the geometric mean over prompts of paired latencies with its 95 % bootstrap interval; "
        "engine is decoding time over time inside backbone forwards (1.00x would be free)."
    )
    return section(
        "Speed",
        note,
        table(heading, _tagged(rows), words=2),
        table(["decoder", "where the time goes"], shares, words=2),
        f'<div class="key">{key}</div>',
    )


def _share_bar(decoder: DecoderResult) -> str:
    parts = []
    for kind, meaning, phases in PHASES:
        seconds = sum(decoder.seconds[phase] for phase in phases)
        share = seconds / decoder.seconds["total"]
        if share < 0.001:
            continue
        tip = f"{meaning}: {1000 * seconds:.1f} ms, {100 * share:.0f} %"
        parts.append(f'<i class="{kind}" style="flex:{100 * share:.2f}" title="{escape(tip)}"></i>')
    return f'<div class="share">{"".join(parts)}</div>'


def _quality(results: Results) -> str:
    points = [_point(decoder, decoder.quality.nll) for decoder in results.decoders if decoder.quality]
    note = (
        "NLL is how unlikely the backbone itself finds the tokens, in nats a token; the baseline's is the "
        "mark to meet. It is far more sensitive than Fréchet distance at these set sizes. Filled marks are "
        "lossless, hollow ones lossy; bars and the baseline's band are 95 %."
    )
    heading, rows = quality_rows(results)
    plot = tradeoff_plot(points, results.baseline, "forwards an image (log scale)", "NLL, nats a token")
    return section("Quality", note, plot, table(heading, _tagged(rows), words=2))


def _point(decoder: DecoderResult, nll: Interval) -> Point:
    return Point(
        name=decoder.name,
        lossless=decoder.lossless,
        x=decoder.forwards,
        y=nll.value,
        low=nll.value if nll.low is None else nll.low,
        high=nll.value if nll.high is None else nll.high,
        tip=f"{decoder.name}: {decoder.forwards:.4g} forwards, {interval(nll, '{:.3f}')} nats",
    )


def _changes(results: Results) -> str | None:
    shown = [
        (decoder, index, change)
        for decoder in results.decoders
        for index, change in enumerate(decoder.changed[:MAP_ROUNDS])
    ]
    if not shown:
        return None
    highest = max(value for _, _, change in shown for row in change.map for value in row)
    figures = []
    for decoder, index, change in shown:
        tip = f"{decoder.name}, round {index + 1}: {100 * change.fraction:.1f} % of judged tokens changed"
        figures.append(
            f"<figure>{heat_map(change.map, highest, tip)}<figcaption>{escape(tip)}</figcaption></figure>"
        )
    scale = f'<div class="scale">0 %<i></i>{100 * highest:.0f} % of images</div>'
    note = (
        "How often verification replaced the drafted token of each grid cell. Tokens drawn from the exact "
        "law, such as the first of a row in ssd, are never judged."
    )
    return section("Where drafts are changed", note, f'<div class="maps">{"".join(figures)}</div>', scale)


def _acceptance(results: Results) -> str | None:
    drafting = [decoder for decoder in results.decoders if decoder.acceptance]
    if not drafting:
        return None
    labels = list(dict.fromkeys(label for decoder in drafting for label in decoder.acceptance))
    rows = [[label, *(_acceptance_cell(decoder, label) for decoder in drafting)] for label in labels]
    note = (
        "Share of drafts that the first verification accepts, by the head that made them: h+ along the row, "
        "v+ down."
    )
    return section("Acceptance", note, table(["head", *(decoder.name for decoder in drafting)], rows))


def _acceptance_cell(decoder: DecoderResult, label: str) -> str:
    if label not in decoder.acceptance:
        return "-"
    accepted, examined = decoder.acceptance[label]
    share = accepted / examined
    bar = f'<span class="track"><i class="bar" style="width:{80 * share:.0f}px"></i></span>'
    return Markup(f'<span title="{accepted} of {examined} drafts">{100 * share:.1f} % {bar}</span>')


def _flat(options: Mapping[str, object], prefix: str = "") -> str:
    return ", ".join(
        _flat(value, f"{name}.") if isinstance(value, Mapping) else f"{prefix}{name} {value}"
        for name, value in options.items()
    )


def _heads(heads: HeadsSubject) -> str:
    targets = ", ".join(heads.targets)
    return f"{targets}; {heads.parameters:,} parameters; {heads.weights} (hash of the loaded tensors)"


def _provenance(results: Results) -> str:
    code = Markup(f"<pre><code>{escape(results.command)}</code></pre>")
    sampling = ", ".join(
        f"{name} {value}" for name, value in asdict(results.sampling).items() if value is not None
    )
    described = [
        ("made", results.created),
        ("backbone", f"{results.subject.backbone}, fingerprint {results.subject.fingerprint}"),
        *((f"{kind} heads", _heads(heads)) for kind, heads in results.subject.heads.items()),
        ("sampling", sampling),
        ("benchmark", _flat(asdict(results.plan))),
        *((decoder.name, _flat(decoder.options)) for decoder in results.decoders),
        *((name.replace("_", " "), str(value)) for name, value in asdict(results.environment).items()),
    ]
    remarks = "".join(f"<li>{escape(line)}</li>" for line in notes(results))
    meanings = [(name.replace("_", " "), meaning) for name, meaning in DEFINITIONS.items()]
    return "\n".join(
        [
            section(
                "How this was measured",
                "The command that made this page, and what the figures depend on.",
                code,
            ),
            f"<ul>{remarks}</ul>",
            facts(described),
            section("Definitions", "As in results.json beside this page.", facts(meanings)),
        ]
    )
