"""The shipped weights passed the gate, and the gate can fail."""

import json

import pytest

from backbones.pocket.judge import WEIGHTS
from backbones.pocket.pretrain import FIGURES_FILE
from eval.gate import BARS, PROMPTS, card, failures, gate_prompts

pytestmark = pytest.mark.unit


def _figures() -> dict:
    return json.loads((WEIGHTS / FIGURES_FILE).read_text())


def test_the_figures_of_the_shipped_weights_pass():
    assert failures(_figures()) == []


@pytest.mark.parametrize("name", list(BARS))
def test_each_bar_can_fail(name):
    assert name in failures(_figures() | {name: BARS[name] - 0.01})[0]


def test_overfitting_fails():
    assert "NLL" in failures(_figures() | {"nll_train_nats": 1.0, "nll_test_nats": 1.2})[0]


def test_the_card_is_that_of_the_figures():
    assert (WEIGHTS / "README.md").read_text() == card(_figures())


def test_prompts_repeat_only_when_all_are_used():
    prompts = gate_prompts(PROMPTS)
    assert len(set(prompts[:900])) == 900
