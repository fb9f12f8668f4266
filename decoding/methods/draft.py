"""Drafting: the heads predict states, and tokens are drawn from the laws that these have."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from decoding.session import Session
from heads.bank import PredictorBank
from heads.offsets import AnyOffset, beside


@dataclass(frozen=True, kw_only=True)
class Source:
    """Head inputs at `start..stop`, each of which drafts the token `offset` away from it."""

    offset: AnyOffset
    start: int
    stop: int


def draft(session: Session, heads: PredictorBank, sources: Sequence[Source]) -> None:
    """Drafts the next positions: one head call per source, then one pass through the output layer for all.

    Args:
        session: the images; states and tokens of the sources are known.
        heads: the draft heads.
        sources: at least one; their targets follow the block and each other without a gap. With heads that
            read three columns, states and tokens of the neighbours in the row are known too.
    """
    cols, around = session.grid.cols, any(heads.columns(source.offset) > 1 for source in sources)
    start = max(0, min(source.start for source in sources) - around)
    states, embeddings = session.pairs(
        start, min(session.end, max(source.stop for source in sources) + around)
    )
    predicted, labels = [], []
    for source in sources:
        places = torch.arange(source.start, source.stop, device=states.device)
        inputs = (
            beside(rows, places, cols, heads.columns(source.offset), start) for rows in (states, embeddings)
        )
        predicted.append(heads(source.offset, *inputs))
        labels += [source.offset.label] * (source.stop - source.start)
    session.trace.head_calls += len(sources)
    session.draft(torch.cat(predicted, 1), labels)
