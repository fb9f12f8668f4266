"""From `results.json` and the log to everything that is read: the page, and the tables for papers.

    python -m eval report folder=outputs/pocket/eval

Nothing is measured and no model is loaded.
"""

from pathlib import Path

from backbones.errors import RowcastError
from eval.exports import csv_table, latex_table, markdown_table
from eval.latency.tables import latency_csv
from eval.maps import Maps, maps_of
from eval.report import write_report
from eval.results import Results, read_results, write_text
from eval.samples import Key, Sample, Scores, log_files, read_into

TABLES = {"table.md": markdown_table, "table.tex": latex_table, "table.csv": csv_table}


def render_again(folder: Path) -> Path:
    """Writes the page and the tables of a benchmark anew; the page's path.

    Raises:
        RowcastError: if results, log or pictures are missing or damaged, or the folder cannot be written.
    """
    results = read_results(folder)
    return render(results, read_images(results, folder), folder)


def read_images(results: Results, folder: Path) -> dict[Key, Sample]:
    """The images that results were computed from, and perhaps more of the same contract.

    Raises:
        RowcastError: if their log is missing or damaged.
    """
    return read_log(results, folder)[0]


def read_log(results: Results, folder: Path) -> tuple[dict[Key, Sample], dict[Key, Scores]]:
    """Images and scores of a benchmark.

    Raises:
        RowcastError: if their log is missing or damaged.
    """
    images: dict[Key, Sample] = {}
    scores: dict[Key, Scores] = {}
    files = log_files(folder, results.contract)
    if not files:
        raise RowcastError(
            f"expected the log samples-{results.contract}.jsonl in {folder}, found none: it belongs to "
            "results.json; copy both, or measure again with python -m eval"
        )
    for path in files:
        read_into(path, images, scores)
    return images, scores


def render(results: Results, images: dict[Key, Sample], folder: Path) -> Path:
    """Writes the page and the tables; the page's path.

    Raises:
        RowcastError: if a picture is missing, or the folder cannot be written.
    """
    maps: dict[str, Maps] = {}
    for decoder in results.decoders:
        own = (image for image in images.values() if image.key[::3] == (decoder.name, "main"))
        found = maps_of(own, results.subject.grid)
        if found is not None:
            maps[decoder.name] = found
    for name, table in TABLES.items():
        write_text(folder / name, table(results))
    if results.latency is not None:
        write_text(folder / "latency.csv", latency_csv(results))
    return write_report(results, maps, folder)
