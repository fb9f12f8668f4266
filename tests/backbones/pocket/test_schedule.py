"""A pretraining stage resumes to the same weights, bit for bit."""

import pytest
import torch

from backbones.pocket.judge import GarmentClassifier
from backbones.pocket.photographs import Photographs
from backbones.pocket.schedule import Stage
from backbones.pocket.train_classifier import train_classifier

pytestmark = pytest.mark.unit


def _photographs() -> Photographs:
    generator = torch.Generator().manual_seed(0)
    grey = torch.randint(256, (40, 28, 28), generator=generator, dtype=torch.uint8)
    return Photographs(grey=grey, garment=torch.arange(40) % 10)


def _train(folder, interrupt_after: int | None = None) -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    network = GarmentClassifier()
    stage = Stage(name="classifier", steps=5, seed=1, folder=folder, save_every=2)
    if interrupt_after is not None:

        def interrupt(step: int, **_: float) -> None:
            if step == interrupt_after:
                raise KeyboardInterrupt

        stage.report = interrupt
    train_classifier(network, _photographs(), stage)
    return network.state_dict()


def test_an_interrupted_stage_ends_at_the_same_weights(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    expected = _train(whole)
    with pytest.raises(KeyboardInterrupt):
        _train(parts, interrupt_after=3)
    found = _train(parts)
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_the_rate_rises_stays_and_falls(tmp_path):
    stage = Stage(name="x", steps=100, seed=0, folder=tmp_path)
    optimiser = torch.optim.SGD([torch.zeros(1)], lr=0.0)
    rates = []
    for stage.step in range(100):
        stage.set_rate(optimiser, 1.0, warm_up=10, decay_from=0.5)
        rates.append(optimiser.param_groups[0]["lr"])
    assert rates[0] == pytest.approx(0.1)
    assert rates[10:50] == [1.0] * 40
    assert rates[75] == pytest.approx(0.5)
    assert rates[99] == pytest.approx(0.02)
