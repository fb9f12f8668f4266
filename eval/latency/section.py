"""The report's part about the latency sweep."""

from html import escape

from eval.latency.figures import Latency
from eval.latency.tables import FIGURES, MISSING, latency_cells, latency_notes, peak
from eval.page import section, table
from eval.results import Results
from eval.speed_section import phase_key, share_bar


def latency_section(results: Results) -> str | None:
    """The table over batch sizes; none where there was no sweep."""
    latency = results.latency
    if latency is None:
        return None
    note = (
        "Seconds of whole images, extrapolated from a few rows half-way down, at several batch sizes; where "
        "the time goes; and how near a forward comes to the time that merely reading the weights and the "
        "cache takes."
    )
    rows = [[*figures, *_ends(latency, *key)] for key, figures in latency_cells(results).items()]
    heading = ["decoder", "batch", *FIGURES, "where the time goes", "peak GiB"]
    remarks = "".join(f"<li>{escape(line)}</li>" for line in latency_notes(results))
    return section(
        "Latency over batch sizes", note, table(heading, rows) + phase_key(), f"<ul>{remarks}</ul>"
    )


def _ends(latency: Latency, decoder: str, batch: int) -> list[str]:
    cell = latency.cell(decoder, batch)
    if cell is None:
        return [MISSING, MISSING]
    spent = {phase: share * cell.seconds for phase, share in cell.phases.items()}
    return [share_bar({**spent, "total": cell.seconds}, "narrow"), peak(cell)]
