"""`README.md` of a head bundle: what it is, what it was trained for, how it did, how to load it."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from checkpoints.config import BundleConfig

CARD_FILE = "README.md"

_CARD = """\
---
library_name: rowcast
pipeline_tag: text-to-image
tags: [speculative-decoding, draft-heads]
---

# Draft heads for {title}

{summary} The bundle holds none of the backbone's weights and works with that backbone alone. {decoders}

- Base model: {title}, states in {backbone_dtype} before the final norm
- Kind: {kind}, drafting {targets}
- Weights: {parameters}, in {dtype}

## How to use

```sh
python -m decoding model={name} heads=path/to/this/folder decoder={decoder} prompt="..." out=image.png
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


@dataclass(frozen=True, kw_only=True)
class _Use:
    """What heads of a kind are and what they are for."""

    summary: str
    decoders: str
    decoder: str
    """The one to begin with: lossless."""


_LAWFUL = "is lossless: its images follow the backbone's own law."
_USES = {
    "ssd": _Use(
        summary="Heads for Spatially Speculative Decoding (SSD, arXiv 2606.20543): they predict the states "
        "of image tokens ahead of the frozen backbone, which then verifies whole rows of a {rows}x{cols} "
        "token grid at a time.",
        decoders=f"`decoder=ssd_exact` {_LAWFUL} `decoder=ssd`, with a fixed number of verification rounds, "
        "is lossy: its images are close to that law, not drawn from it.",
        decoder="ssd_exact",
    ),
    "mtp": _Use(
        summary="Heads for one-dimensional multi-token prediction, a rival of Spatially Speculative "
        "Decoding: they predict the states of the next tokens of a {rows}x{cols} token grid in painting "
        "order.",
        decoders=f"`decoder=mtp_strict` {_LAWFUL} `decoder=mtp`, with a fixed number of verification rounds, "
        "is lossy: its images are close to that law, not drawn from it.",
        decoder="mtp_strict",
    ),
    "eagle": _Use(
        summary="A drafter in the manner of EAGLE (arXiv 2401.15077), a rival of Spatially Speculative "
        "Decoding: one transformer layer that runs ahead of the frozen backbone, token by token over a "
        "{rows}x{cols} token grid.",
        decoders=f"`decoder=eagle` {_LAWFUL} `decoder=lantern` and `decoder=lantern_pp`, with relaxed tests, "
        "are lossy: their images are close to that law, not drawn from it.",
        decoder="eagle",
    ),
}


def render_card(config: BundleConfig, parameters: int, targets: Sequence[str]) -> str:
    """The card as Markdown; every name and value in it is escaped.

    Args:
        config: the bundle's config.
        parameters: how many weights the heads hold.
        targets: labels of what they draft.
    """
    name = " ".join(config.backbone.name.split())
    use, grid = _USES[config.heads.name], config.backbone
    return _CARD.format(
        title=escape(name),
        name=shlex.quote(name),
        quoted=repr(name),
        summary=use.summary.format(rows=grid.rows, cols=grid.cols),
        decoders=use.decoders,
        decoder=use.decoder,
        backbone_dtype=config.backbone.dtype,
        dtype_quoted=repr(config.backbone.dtype),
        kind=config.heads.name,
        targets=", ".join(targets),
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
