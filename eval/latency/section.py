"""The report's part about the latency sweep."""

from html import escape

from eval.latency.tables import HEADING, latency_notes, latency_rows
from eval.page import section, table
from eval.results import Results


def latency_section(results: Results) -> str | None:
    """The table over batch sizes; none where there was no sweep."""
    if results.latency is None:
        return None
    note = (
        "Seconds of whole images, extrapolated from a few rows half-way down, at several batch sizes; the "
        "shares of the time by phase; and how near a forward comes to the time that merely reading the "
        "weights and the cache takes."
    )
    remarks = "".join(f"<li>{escape(line)}</li>" for line in latency_notes(results))
    return section(
        "Latency over batch sizes", note, table(HEADING, latency_rows(results)), f"<ul>{remarks}</ul>"
    )
