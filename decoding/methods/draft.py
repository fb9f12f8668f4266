"""Drafting: the heads predict states, and tokens are drawn from the laws that these have."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from decoding.session import Session
from heads.bank import PredictorBank
from heads.offsets import AnyOffset


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
        sources: at least one; their targets follow the block and each other without a gap.
    """
    start = min(source.start for source in sources)
    states, embeddings = session.pairs(start, max(source.stop for source in sources))
    predicted, labels = [], []
    for source in sources:
        inputs = slice(source.start - start, source.stop - start)
        predicted.append(heads(source.offset, states[:, inputs], embeddings[:, inputs]))
        labels += [source.offset.label] * (source.stop - source.start)
    session.trace.head_calls += len(sources)
    session.draft(torch.cat(predicted, 1), labels)
