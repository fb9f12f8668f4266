"""`report.html`: a benchmark on one page that needs nothing else, to be read, kept and sent around."""

from collections.abc import Mapping
from dataclasses import asdict
from html import escape
from pathlib import Path

from eval.exhibits import gallery_section
from eval.heads import HeadsSubject
from eval.latency.section import latency_section
from eval.learning import learning_section
from eval.mapping import maps_section
from eval.maps import Maps
from eval.page import Markup, card, facts, page, section, tag
from eval.quality_section import quality_section
from eval.results import DEFINITIONS, DecoderResult, Results, write_text
from eval.speed_section import acceptance_section, ladder_section, speed_section
from eval.statistics import Interval
from eval.table import law, notes


def write_report(results: Results, maps: Mapping[str, Maps], folder: Path) -> Path:
    """Writes the page into the benchmark's folder, where the gallery's pictures lie.

    Raises:
        RowcastError: if a picture is missing, or the file cannot be written.
    """
    parts = [
        _headline(results),
        gallery_section(results.gallery, results, folder),
        speed_section(results),
        latency_section(results),
        ladder_section(results),
        quality_section(results),
        # What untrained heads draft, or random weights accept, is not worth a look.
        None if results.untrained else maps_section(results, maps, headline_decoder(results).name),
        None if results.untrained else acceptance_section(results),
        learning_section(folder),
        _provenance(results),
    ]
    path = folder / "report.html"
    title = f"Rowcast benchmark: {results.subject.backbone}"
    write_text(path, page(title, [part for part in parts if part]))
    return path


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
        else f"the drafting decoder nearest to {baseline.name} in {'quality' if best.quality else 'forwards'}"
    )
    about = (
        f"{subject.grid.rows}x{subject.grid.cols} tokens, {subject.codes} codes. The figures here are of "
        f"{best.name}, {chosen}; the tables have all."
    )
    if results.untrained:
        about += f" Untrained {' and '.join(results.untrained)}: for timing alone, images mean nothing."
    title = f"{escape(best.name)} {tag(law(best))} on {escape(subject.backbone)}"
    return (
        f'<header>\n<p class="soft">Rowcast benchmark</p>\n<h1>{title}</h1>\n'
        f'<p class="soft">{escape(about)}</p>\n</header>\n<div class="cards">{"".join(cards)}</div>'
    )


def _range(value: Interval, form: str) -> str:
    if value.low is None or value.high is None:
        return ""
    return f" (95 %: {form.format(value.low)} to {form.format(value.high)})"


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
        *(
            (f"prompts: {source.name}", f"{source.prompts:,} prompts, {source.images:,} images a decoder")
            for source in results.prompts
        ),
        *((name.replace("_", " "), str(value)) for name, value in asdict(results.environment).items()),
    ]
    options = facts([(decoder.name, _flat(decoder.options)) for decoder in results.decoders])
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
            f"<details><summary>Options of every decoder</summary>{options}</details>",
            f"<details><summary>Definitions, as in results.json</summary>{facts(meanings)}</details>",
        ]
    )
