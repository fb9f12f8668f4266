"""What the rows of ZipAR and parallel Jacobi decoding feed, see and leave in the cache."""

import pytest
import torch

from backbones.contract import Grid
from decoding.methods.rows import Front, Rows
from decoding.noise import Noise
from decoding.session import Session
from decoding.warp import Warp
from tests.backbones.coordinates import CoordinateBackbone

pytestmark = pytest.mark.unit


class Recorder(CoordinateBackbone):
    """Notes what each entry was, as (place, code), and what those of the last forward saw."""

    def begin(self, prompt):
        self.entries = []
        return super().begin(prompt)

    def forward_at(self, tokens, places, sees):
        new = list(zip(places, tokens[0].tolist(), strict=True))
        self.entries += new
        self.saw = {
            entry: sorted(seen for seen, flag in zip(self.entries, flags, strict=True) if flag)
            for entry, flags in zip(new, sees.tolist(), strict=True)
        }
        return super().forward_at(tokens, places, sees)

    def keep_entries(self, entries):
        self.entries = [self.entries[entry] for entry in entries]
        super().keep_entries(entries)


@pytest.fixture
def session():
    """Three rows of five, whose token at place p is p, on a recorder."""
    backbone = Recorder(3, 5)
    prompt = backbone.encode(["a"])
    session = Session(backbone, Warp(backbone.sampling), Noise(0, ["a"], [0]), 2, backbone.begin(prompt))
    session.tokens[:] = torch.arange(15)
    return session


def rows(*counts, done=0):
    made = Rows(Grid(rows=3, cols=5))
    made.counts, made.done = list(counts), done
    return made


def pairs(*places):
    return [(place, place) for place in places]


def test_the_fronts_of_rows():
    assert rows(2, 0, 0).fronts(3) == [Front(place=1, token=1, emitted=range(2, 3))]
    assert rows(3, 0, 0).fronts(3) == [
        Front(place=2, token=2, emitted=range(3, 4)),
        Front(place=4, token=2, emitted=range(5, 6)),
    ]
    assert rows(5, 3, 0).fronts(4) == [
        Front(place=4, token=4, emitted=range(5, 5)),
        Front(place=7, token=7, emitted=range(8, 9)),
    ]
    assert rows(5, 0, 0).fronts(9) == [Front(place=4, token=4, emitted=range(5, 6))]
    assert rows(5, 5, 1, done=2).fronts(1) == [Front(place=10, token=10, emitted=range(11, 12))]


def test_a_row_is_done_once_its_last_token_was_fed(session):
    made = rows(5, 2, 0)
    made.feed(session, made.fronts(9))
    assert (made.done, made.next) == (1, 2)
    made.feed(session, made.fronts(9))
    assert made.done == 1


def test_drafts_are_seen_by_their_own_row_alone(session):
    made = rows(3, 2, 0)
    fronts = [
        Front(place=2, token=2, emitted=range(3, 5), drafts=2),
        Front(place=6, token=6, emitted=range(7, 9), drafts=1),
        Front(place=9, token=6, emitted=range(10, 11)),
    ]
    step = made.feed(session, fronts)
    assert session.backbone.saw == {
        (2, 2): [],
        (3, 3): pairs(2),
        (4, 4): pairs(2, 3),
        (6, 6): pairs(2),
        (7, 7): pairs(2, 6),
        (9, 6): pairs(2, 6),
    }
    assert step.hidden[0].tolist() == [[0, 3], [0, 4], [1, 2], [1, 3], [2, 0]]
    assert session.states[0, [3, 4, 7, 8, 10]].tolist() == step.hidden[0].tolist()
    assert (session.trace.forwards, session.trace.fed) == (2, 6)


def test_what_leaves_the_cache(session):
    """Fed again, no longer final, and a stand-in whose true token arrives: gone. Another stand-in stays."""
    made = rows(4, 2, 0)
    made.feed(
        session,
        [
            Front(place=4, token=3, emitted=range(5, 6)),
            Front(place=3, token=3, emitted=range(4, 5), drafts=1),
            Front(place=6, token=6, emitted=range(7, 9), drafts=1),
            Front(place=9, token=6, emitted=range(10, 11)),
        ],
    )
    assert session.backbone.entries == [(4, 3), *pairs(3, 4, 6, 7), (9, 6)]
    assert session.backbone.saw[7, 7] == [(3, 3), (4, 3), (6, 6)], "the stand-in, not the draft at its place"
    made.feed(session, [Front(place=6, token=6, emitted=range(7, 8))])
    assert session.backbone.entries == [(4, 3), (3, 3), (9, 6), (6, 6)]
    made.counts[0] = 5
    made.feed(session, [Front(place=4, token=4, emitted=range(5, 5))])
    assert session.backbone.entries == [(3, 3), (9, 6), (6, 6), (4, 4)]
    assert session.backbone.saw[4, 4] == pairs(3)
