"""The ladder: what a loop gains stands apart from what a decoder gains."""

import time

import pytest

from decoding.engine import generate
from decoding.methods import build_method
from decoding.noise import Noise
from eval.benchmark import Extras
from eval.reference import reference_loop
from tests.backbones.tiny import tiny_backbone
from tests.eval.tiny import run_tiny

pytestmark = pytest.mark.unit


def slow_loop():
    """Plain autoregression that wastes 30 ms an image."""
    backbone, method = tiny_backbone(), build_method("ar", {}, None)

    def paint(prompt, seed):
        time.sleep(0.03)
        return generate(backbone, [prompt], method, Noise(seed, [prompt], [0])).tokens[0]

    return paint


def test_gains_multiply_and_the_page_shows_them(tmp_path):
    extras = Extras(reference=slow_loop(), loop="a slow loop")
    results = run_tiny(
        tmp_path, images=3, quality=0, names=("ar", "ssd_r0"), extras=extras, reference_images=2
    )
    ladder = results.ladder
    [rung] = ladder.rungs
    assert (ladder.loop, ladder.images, rung.name) == ("a slow loop", 2, "ssd_r0")
    assert ladder.reference.median > ladder.baseline.median + 0.02
    assert ladder.loop_gain.value > 1
    assert rung.total.value == pytest.approx(ladder.loop_gain.value * rung.speculation.value)
    page = (tmp_path / "report.html").read_text()
    assert "The ladder" in page
    assert "a slow loop" in page
    assert "<svg" not in page, "a plot without quality figures"
    again = run_tiny(tmp_path, images=3, quality=0, names=("ar", "ssd_r0"), extras=extras, reference_images=2)
    assert again.ladder == ladder, "what was timed once is kept"


def test_a_family_without_a_loop_of_its_library_has_no_ladder():
    backbone = tiny_backbone()
    for name, weights in (("lumina", "published"), ("pocket", "random")):
        model = {"name": name, "weights": weights, "path": None, "revision": None, "dtype": "float32"}
        model |= {"size": None, "tokenizer": None, "pixels": None, "text_encoder": None, "device": "cpu"}
        assert reference_loop(model, backbone.sampling, backbone.device) is None
