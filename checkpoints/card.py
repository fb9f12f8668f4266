"""`README.md` of a head bundle: what it is, what it was trained for, how it did, how to load it."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from checkpoints.config import BundleConfig
from heads.offsets import horizontal_offsets, vertical_offsets

CARD_FILE = "README.md"

_CARD = """\
---
library_name: rowcast
pipeline_tag: text-to-image
tags: [speculative-decoding, draft-heads]
---

# Draft heads for {title}

Heads for Spatially Speculative Decoding (SSD, arXiv 2606.20543): they predict the states of image tokens
ahead of the frozen backbone, which then verifies whole rows of a {rows}x{cols} token grid at a time. They
hold none of the backbone's weights and work with that backbone alone. `decoder=ssd_exact` is lossless: its
images follow the backbone's own law. `decoder=ssd`, with a fixed number of verification rounds, is lossy: its
images are close to that law, not drawn from it.

- Base model: {title}, states in {backbone_dtype} before the final norm
- Offsets: {offsets}
- Weights: {parameters}, in {dtype}

## How to use

```sh
python -m decoding model={name} heads=path/to/this/folder decoder=ssd_exact prompt="..." out=image.png
```

```python
from backbones.registry import load_backbone
from checkpoints import load_heads

heads = load_heads("path/to/this/folder", load_backbone({quoted}, dtype={dtype_quoted}))
```

## Sampling of the training images

{sampling}

## Training

{training}

## Metrics of the last validation

Of the few images painted while training; `python -m eval` with these heads measures speed and quality.

{metrics}
"""


def render_card(config: BundleConfig, parameters: int) -> str:
    """The card as Markdown; every name and value in it is escaped.

    Args:
        config: the bundle's config.
        parameters: how many weights the heads hold.
    """
    name = " ".join(config.backbone.name.split())
    offsets = horizontal_offsets(config.heads.horizontal) + vertical_offsets(config.heads.vertical)
    return _CARD.format(
        title=escape(name),
        name=shlex.quote(name),
        quoted=repr(name),
        rows=config.backbone.rows,
        cols=config.backbone.cols,
        backbone_dtype=config.backbone.dtype,
        dtype_quoted=repr(config.backbone.dtype),
        offsets=", ".join(offset.label for offset in offsets),
        parameters=f"{parameters:,}",
        dtype=config.heads.dtype,
        sampling=_table(asdict(config.sampling)),
        training=_table(config.training),
        metrics=_table(config.metrics),
    )


def escape(text: str) -> str:
    """`text` on one line, with everything that Markdown or HTML would act on made literal."""
    return re.sub(r"([\\`*_{}\[\]<>()#!|~&$])", r"\\\1", " ".join(text.split()))


def _table(values: Mapping[str, object]) -> str:
    rows = [f"| {escape(key)} | {escape(_shown(value))} |" for key, value in _flat(values)]
    return "\n".join(["| | |", "|---|---|", *rows]) if rows else "None given."


def _flat(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Nested mappings as dotted keys."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(_shown(item) for item in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
