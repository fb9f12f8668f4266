"""`README.md` of a head bundle: what it is, what it was trained for, how it did, how to load it."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from checkpoints.config import BackboneFacts, BundleConfig
from checkpoints.custom import passage
from checkpoints.figures import acceptance_table, decoder_table, notes
from checkpoints.markdown import escape, fact_table, table
from checkpoints.measured import Measured
from checkpoints.uses import USES

CARD_FILE = "README.md"
SAMPLES_FILE = "samples.png"

HERE = "path/to/this/folder"
HUB = "https://huggingface.co"

_CARD = """\
---
library_name: rowcast
pipeline_tag: text-to-image
tags: [speculative-decoding, draft-heads{tags}]
{base_model}---

# Draft heads for {title}

{summary} The bundle holds none of the backbone's weights and works with that backbone alone. {decoders}

{facts}

{parts}## How to use

In a checkout of Rowcast:

```sh
{command}
```

```python
from backbones.registry import load_backbone
from checkpoints import load_heads

heads = load_heads({place}, load_backbone({backbone}))
```

{plain}## Sampling of the training images

{sampling}

## Training

{training}

## Metrics of the last validation

Of the few images painted while training; {better}.

{metrics}
"""


@dataclass(frozen=True, kw_only=True)
class Publication:
    """What a card says beside the bundle's config."""

    place: str = HERE
    """What `heads=` is given: a folder, or a name on a hub."""
    licence: str | None = None
    """Of the base model."""
    measured: Measured | None = None
    samples: bool = False
    """Whether `samples.png` lies beside the card."""
    custom_generate: bool = False
    """Whether the code for plain transformers lies there."""


def render_card(
    config: BundleConfig, parameters: int, labels: Sequence[str], publication: Publication | None = None
) -> str:
    """The card as Markdown; every name and value in it is escaped.

    Args:
        config: the bundle's config.
        parameters: how many weights the heads hold.
        labels: of what they draft.
        publication: the rest; none where nothing is known yet.
    """
    shown = publication or Publication()
    use, grid = USES[config.heads.name], config.backbone
    measure = "`python -m eval` with these heads measures speed and quality"
    return _CARD.format(
        title=escape(config.backbone.name),
        tags=", custom_generate" if shown.custom_generate else "",  # by which hubs list such code
        base_model=_front_matter(config.backbone),
        summary=use.summary.format(rows=grid.rows, cols=grid.cols),
        decoders=use.decoders,
        facts="\n".join(f"- {line}" for line in _facts(config, parameters, labels, shown.licence)),
        parts="".join(f"{part}\n\n" for part in _parts(shown, labels)),
        command=_command(config.backbone, shown.place, use.decoder),
        place=repr(shown.place),
        backbone=_arguments(config.backbone),
        plain=passage(config.backbone, shown.place) if shown.custom_generate else "",
        sampling=fact_table(asdict(config.sampling)),
        training=fact_table(config.training),
        better="the tables above are of more" if shown.measured else measure,
        metrics=fact_table(config.metrics),
    )


def _front_matter(backbone: BackboneFacts) -> str:
    if backbone.origin is None:
        return ""
    return f'base_model: "{backbone.origin.repository}"\nbase_model_relation: adapter\n'


def _facts(
    config: BundleConfig, parameters: int, labels: Sequence[str], licence: str | None
) -> Iterator[str]:
    backbone, origin = config.backbone, config.backbone.origin
    yield (f"Base model: {escape(backbone.name)}, states in {escape(backbone.dtype)} before the final norm")
    if origin is None:
        yield "Its weights: a local copy, or those that come with Rowcast; the fingerprint tells them apart"
    else:
        at = "" if origin.revision is None else f" at revision `{origin.revision}`"
        file = "" if origin.file is None else f"`{origin.file}` of "
        yield f"Its weights: {file}[{escape(origin.repository)}]({HUB}/{origin.repository}){at}"
    yield f"Its fingerprint, compared when the heads are loaded: `{_code(backbone.fingerprint)}`"
    if licence is not None:
        yield f"Its licence, by its page on the hub: {escape(licence)}"
    yield f"Kind: {config.heads.name}, drafting {', '.join(labels)}"
    yield f"Weights: {parameters:,}, in {escape(config.heads.dtype)}"


def _parts(shown: Publication, labels: Sequence[str]) -> Iterator[str]:
    """The picture and the tables, as far as there are any."""
    if shown.samples:
        yield f"![Images painted with these heads]({SAMPLES_FILE})"
    if shown.measured is None:
        return
    yield f"## Measured\n\n{table(*decoder_table(shown.measured), words=2)}"
    yield "\n".join(escape(note) for note in notes(shown.measured))
    accepted = acceptance_table(shown.measured, labels)
    if accepted is not None:
        note = "Share of each head's drafts that the first round accepted."
        yield f"## Acceptance\n\n{note}\n\n{table(*accepted)}"


def _command(backbone: BackboneFacts, place: str, decoder: str) -> str:
    words = [f"model={backbone.name}", f"heads={place}", f"decoder={decoder}"]
    line = f'python -m decoding {shlex.join(_line(word) for word in words)} prompt="..." out=image.png'
    if backbone.origin is None:
        return line
    path, revision = backbone.origin.path, backbone.origin.revision
    options = [f"model.path={path}", *([] if revision is None else [f"model.revision={revision}"])]
    return f"{line} \\\n    {shlex.join(options)} model.dtype={_line(backbone.dtype)}"


def _arguments(backbone: BackboneFacts) -> str:
    """How `load_backbone` is called for it."""
    words = [repr(backbone.name)]
    if backbone.origin is not None:
        words.append(f"path={backbone.origin.path!r}")
        if backbone.origin.revision is not None:
            words.append(f"revision={backbone.origin.revision!r}")
    return ", ".join([*words, f"dtype={backbone.dtype!r}"])


def _line(text: str) -> str:
    """On one line, so that it stays within its block of code."""
    return " ".join(text.split())


def _code(text: str) -> str:
    """For a code span."""
    return _line(text).replace("`", "'")
