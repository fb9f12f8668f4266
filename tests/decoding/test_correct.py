"""Correction: which drafts are redrawn, from which law, and what stays as it is."""

import pytest
import torch

from decoding.methods.correct import correct
from decoding.noise import Noise
from decoding.session import Session
from decoding.warp import Warp
from tests.backbones.tiny import tiny_backbone
from tests.decoding.banks import random_bank

pytestmark = pytest.mark.unit

PROMPTS = ["a b", "c"]
START, END = 5, 11
"""Rows of four: row 1 from its second column on, and row 2 but its last column."""


def opened(correction):
    """Two images with drafts from `START` to `END`, and the tokens that were judged."""
    backbone, generator = tiny_backbone(3, 4), torch.Generator().manual_seed(2)
    first = backbone.begin(backbone.encode(PROMPTS))
    session = Session(backbone, Warp(backbone.sampling), Noise(0, PROMPTS, [0, 0]), 2, first)
    session.tokens[:] = torch.randint(backbone.codes, session.tokens.shape, generator=generator)
    session.states[:] = torch.randn(session.states.shape, generator=generator)
    session.committed, session.end = START, END
    session.q = session.law(backbone.head(session.states[:, START:END]))
    return session, random_bank(backbone.width, correction=correction), session.tokens.clone()


def replace(session, image, place):
    session.tokens[image, place] = (session.tokens[image, place] + 1) % session.backbone.codes


@pytest.mark.parametrize("correction", [0.0, 1.0])
def test_only_right_neighbours_of_replaced_tokens_are_corrected(correction):
    session, bank, judged = opened(correction)
    replace(session, 0, START - 1)
    replace(session, 1, 7)  # the last of its row: its neighbour is not in the row
    replace(session, 1, 8)
    tokens, q, states = session.tokens.clone(), session.q.clone(), session.states.clone()
    with torch.inference_mode():
        correct(session, bank, judged, passes=1)
    touched = torch.zeros(2, END - START, dtype=torch.bool)
    touched[0, START - START] = touched[1, 9 - START] = True
    assert torch.equal((session.q != q).any(-1), touched)
    inside = session.states[:, START:END].unflatten(0, (2, 2)) != states[:, START:END].unflatten(0, (2, 2))
    assert torch.equal(inside.any(-1).any(0), touched), "in both branches of the same image"
    moved = session.tokens[:, START:END] != tokens[:, START:END]
    assert not (moved & ~touched).any()
    assert torch.equal(session.tokens[:, :START], tokens[:, :START])
    assert session.trace.head_calls == 1


@pytest.mark.parametrize("correction", [0.0, 1.0])
def test_the_law_is_that_of_the_corrected_state(correction):
    session, bank, judged = opened(correction)
    replace(session, 0, 5)
    old, new = (session.backbone.embed(t[:, 5:6]).repeat(2, 1, 1) for t in (judged, session.tokens))
    wanted = bank.correct(session.states[:, 6:7], session.states[:, 5:6], old, new)
    with torch.inference_mode():
        correct(session, bank, judged, passes=1)
    assert torch.equal(session.states[::2, 6:7], wanted[::2])
    law = session.law(session.backbone.head(wanted))
    torch.testing.assert_close(session.q[0, 6 - START], law[0, 0])


def test_a_pass_goes_on_from_what_the_one_before_replaced():
    session, bank, judged = opened(1.0)
    replace(session, 0, START - 1)
    replace(session, 1, START - 1)
    with torch.inference_mode():
        correct(session, bank, judged, passes=10)
    # Random laws replace nearly every draft; a row has three places behind its first.
    assert 1 < session.trace.head_calls <= 3


def test_nothing_replaced_or_no_pass_is_no_work():
    for change, passes in ((False, 5), (True, 0)):
        session, bank, judged = opened(1.0)
        if change:
            replace(session, 0, START)
        tokens, q = session.tokens.clone(), session.q.clone()
        correct(session, bank, judged, passes)
        assert session.trace.head_calls == 0
        assert torch.equal(session.tokens, tokens)
        assert torch.equal(session.q, q)
