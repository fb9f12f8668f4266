"""Rows painted at the same time: what ZipAR and parallel Jacobi decoding share.

The law of a row's first token is the output at the last place of the row above, which may not be known yet.
Then the latest token of that row is fed there as a stand-in, until the true one is fed. (ZipAR's own code
feeds a row end early instead. Here it rides with the last token of its row.)
Entries lie in the cache in the order of their arrival, at their true raster places.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from backbones.contract import Grid, Step
from decoding.session import Session


@dataclass(frozen=True, kw_only=True)
class Front:
    """The end of a row, to be fed: its latest final token, and drafts behind it."""

    place: int
    token: int
    """Place of the token that is fed at `place`: another one for a stand-in."""
    emitted: range
    """Places whose laws are asked for: first that of this token, then those of the drafts."""
    drafts: int = 0
    """Drafts at the first places of `emitted`, which only this row may see."""

    @property
    def drafted(self) -> range:
        """Places of the drafts."""
        return self.emitted[: self.drafts]


class Rows:
    """How far the rows are, alike for all images of a batch, and what the cache holds."""

    def __init__(self, grid: Grid) -> None:
        self.cols = grid.cols
        self.counts = [0] * grid.rows
        """Final tokens of each row."""
        self.done = 0
        """Rows that are full and have been fed to their end."""
        self._places: Int[Tensor, " E"] = torch.zeros(0, dtype=torch.long)
        self._stand_in: Bool[Tensor, " E"] = torch.zeros(0, dtype=torch.bool)

    @property
    def next(self) -> int:
        """The first row without a final token; the number of rows where all have some."""
        return sum(count > 0 for count in self.counts)

    def full(self, row: int) -> bool:
        """Whether all tokens of a row are final."""
        return self.counts[row] == self.cols

    def fronts(self, context: int) -> list[Front]:
        """The ends of the rows that are not done, and what opens the next row.

        A row opens once the one above holds `context` tokens or is full.
        """
        fronts = []
        for row in range(self.done, self.next):
            latest = row * self.cols + self.counts[row] - 1
            emitted = range(latest + 1, latest + 1 + (not self.full(row)))
            fronts.append(Front(place=latest, token=latest, emitted=emitted))
        above, first = self.next - 1, self.next * self.cols
        if self.next < len(self.counts) and self.counts[above] >= min(context, self.cols):
            token = above * self.cols + self.counts[above] - 1
            # Of a full row this is the true last token, which is among the fronts already.
            fronts = fronts[: len(fronts) - self.full(above)]
            fronts.append(Front(place=first - 1, token=token, emitted=range(first, first + 1)))
        return fronts

    def feed(self, session: Session, fronts: Sequence[Front]) -> Step:
        """Feeds the ends of rows; every token sees all earlier places but the drafts of other rows.

        First, whatever is not final, or is fed again, leaves the cache. Notes the states of what is emitted.

        Returns:
            The entries that emit `emitted` of all fronts, in order.
        """
        places, tokens, drafts, emitting = [], [], [], []
        for front in fronts:
            emitting += range(len(places), len(places) + len(front.emitted))
            places += [front.place, *front.drafted]
            tokens += [front.token, *front.drafted]
            drafts += [False] + [True] * front.drafts
        step = self._feed(session, torch.tensor(places), torch.tensor(tokens), torch.tensor(drafts))
        if self.done < self.next and self.full(self.done):
            self.done += 1  # its last token was among the fronts
        session.states[:, emitted_by(fronts)] = step.hidden[:, emitting]
        return Step(hidden=step.hidden[:, emitting], logits=step.logits[:, emitting])

    def _feed(
        self,
        session: Session,
        places: Int[Tensor, " T"],
        tokens: Int[Tensor, " T"],
        drafts: Bool[Tensor, " T"],
    ) -> Step:
        self._drop(session, places[~drafts])
        old, new = len(self._places), len(places)
        self._places = torch.cat([self._places, places])
        self._stand_in = torch.cat([self._stand_in, places != tokens])
        row = self._places // self.cols
        own = (row == row[old:, None]) & drafts[:, None]
        for_all = torch.cat([drafts.new_ones(old), ~drafts])
        sees = (self._places < places[:, None]) & (own | for_all)
        fed = session.tokens[:, tokens.to(session.tokens.device)]
        session.trace.forwards += 1
        session.trace.fed += new
        session.steps += 1
        return session.backbone.forward_at(fed, places.tolist(), sees)

    def _drop(self, session: Session, again: Int[Tensor, " A"]) -> None:
        """Takes what is not final, or at one of the places `again`, out of the cache; stand-ins are final."""
        final = self._places % self.cols < torch.tensor(self.counts)[self._places // self.cols]
        kept = (final | self._stand_in) & ~torch.isin(self._places, again)
        if not kept.all():
            session.backbone.keep_entries(kept.nonzero()[:, 0].tolist())
            self._places, self._stand_in = self._places[kept], self._stand_in[kept]


def emitted_by(fronts: Sequence[Front]) -> list[int]:
    """Places whose laws the fronts give, in order."""
    return [place for front in fronts for place in front.emitted]


def rows_of(session: Session) -> Rows:
    """The rows of these images; they begin with a first token from the prefill."""
    if "rows" not in session.memory:
        session.draw_next()
        session.memory["rows"] = Rows(session.grid)
        session.memory["rows"].counts[0] = 1
    return session.memory["rows"]


def finished(session: Session) -> bool:
    """Whether all tokens are final, which the session is told then."""
    cols, counts = session.grid.cols, rows_of(session).counts
    for row, count in enumerate(counts):
        session.note_final(range(row * cols, row * cols + count))
    if min(counts) < cols:
        return False
    size = session.grid.size
    session.cached, session.committed, session.end = size - 1, size, size
    return True
