"""Every preset in conf/decoder paints an image of every model family."""

from dataclasses import replace

import pytest
import torch

from backbones import llamagen
from backbones.contract import Grid
from backbones.registry import load_backbone
from conf.check import choices
from conf.decoders import decoder_options
from decoding.accounting import forward_bounds
from decoding.engine import generate
from decoding.methods import HEADS, build_method
from decoding.noise import Noise
from tests.backbones.checkpoints.families import SUBJECTS
from tests.decoding.banks import random_bank
from tests.decoding.drafters import random_drafter, random_mtp

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("without_shape_checks")]

HEADED = {"ssd": random_bank, "mtp": random_mtp, "eagle": random_drafter}
LOSSLESS = {
    "ar",
    "eagle",
    "mc_sjd",
    "mc_sjd_gumbel",
    "mtp_strict",
    "sjd",
    "sjd_pac",
    "sjd_vp",
    "ssd_exact",
}


def paint(backbone, prompt, preset, banks, **sampling):
    options = decoder_options(preset)
    name = options.pop("name")
    method = build_method(name, options, banks[HEADS[name]] if name in HEADS else None)
    law = replace(backbone.sampling, **sampling)
    done = generate(backbone, [prompt], method, Noise(0, [prompt], [0]), law)
    least, most = forward_bounds(backbone.grid, name, options)
    assert least <= done.trace.forwards <= most, preset
    assert method.lossless == (preset in LOSSLESS), preset
    return done.tokens


@pytest.mark.parametrize("name", [name for name in SUBJECTS if name not in ("pocket", "janus_1b")])
def test_every_preset_paints_on(name, tmp_path, monkeypatch):
    """With useless heads. The lossless ones paint greedily what autoregression does."""
    # LlamaGen's smallest published grid has 256 cells.
    monkeypatch.setattr(llamagen, "_grid", lambda *_: Grid(rows=4, cols=5))
    subject = SUBJECTS[name]
    backbone = load_backbone(name, device="cpu", **subject.write(tmp_path / "checkpoint"))
    banks = {kind: make(backbone.width) for kind, make in HEADED.items()}
    prompt = subject.prompts[1]
    greedy = paint(backbone, prompt, "ar", banks, temperature=0.0)
    for preset in choices("decoder"):
        if preset in LOSSLESS:
            assert torch.equal(paint(backbone, prompt, preset, banks, temperature=0.0), greedy), preset
        else:
            tokens = paint(backbone, prompt, preset, banks)
            assert tokens.shape == (1, backbone.grid.size), preset
            assert 0 <= tokens.min() <= tokens.max() < backbone.codes, preset
