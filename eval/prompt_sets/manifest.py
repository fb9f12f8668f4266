"""The prompt sets that are known: their files, where those are published, and what they must hash to."""

from dataclasses import dataclass
from pathlib import Path

from eval.prompt_sets.formats import Reader, read_coco, read_dpg, read_geneval, read_parti


@dataclass(frozen=True, kw_only=True)
class Published:
    """One file at one commit."""

    address: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class PromptSet:
    """One set."""

    name: str
    file: str
    """What the published file is called."""
    page: str
    """Where people find it."""
    licence: str
    read: Reader
    published: Published | None = None
    """What can be fetched; none where no checksum of a pinned file is known, and a path must be given."""
    shipped: Path | None = None
    """Our own file."""


SETS = {
    entry.name: entry
    for entry in (
        PromptSet(
            name="smoke",
            file="smoke.jsonl",
            page="in this repository",
            licence="Apache-2.0",
            read=read_geneval,
            shipped=Path(__file__).with_name("smoke.jsonl"),
        ),
        PromptSet(
            name="geneval",
            file="evaluation_metadata.jsonl",
            page="github.com/djghosh13/geneval",
            licence="MIT",
            read=read_geneval,
            published=Published(
                address="https://raw.githubusercontent.com/djghosh13/geneval/af4902f24d3c/prompts/"
                "evaluation_metadata.jsonl",
                sha256="5c48e0813e812e3c373fa5c8ed07a8f0a483be30272b4427b0559c8048e67c13",
            ),
        ),
        PromptSet(
            name="dpg",
            file="dpg_bench.csv",
            page="github.com/TencentQQGYLab/ELLA (commit 3c228f1dc6c4)",
            licence="Apache-2.0; its prompts rewrite those of other collections",
            read=read_dpg,
        ),
        PromptSet(
            name="parti",
            file="PartiPrompts.tsv",
            page="github.com/google-research/parti",
            licence="Apache-2.0",
            read=read_parti,
        ),
        PromptSet(
            name="coco",
            file="captions_val2017.json",
            page="cocodataset.org (annotations_trainval2017.zip)",
            licence="CC BY 4.0",
            read=read_coco,
        ),
    )
}
