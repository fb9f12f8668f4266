"""Eight faults, planted one at a time: the doctor names each, and finds none in good heads.

Heads are trained here in seconds, on the pocket model's own images: good ones, and ones taught wrongly as the
mistakes of an adapter or a training loop would teach them.
"""

from dataclasses import replace

import pytest
import torch

from backbones.contract import Grid
from backbones.registry import load_backbone, rollout_prompts
from checkpoints.bundle import save_bundle
from checkpoints.config import read_config
from checkpoints.golden import golden
from data.harvest import Harvest, harvest
from decoding.methods import build_method
from eval.doctor.case import Case, paint_plainly
from eval.doctor.order import CAUSES, examine, first_cause
from heads.bank import HeadBank
from tests.heads.lessons import lesson
from tests.process import run_module

pytestmark = pytest.mark.integration

IMAGES, STEPS = 12, 60


@pytest.fixture(scope="module")
def backbone():
    return load_backbone("pocket")


@pytest.fixture(scope="module")
def prompts():
    return list(rollout_prompts("pocket"))


@pytest.fixture(scope="module")
def rollouts(backbone, prompts):
    return paint_plainly(backbone, prompts[::160][:4], backbone.sampling, seed=4000)


def case_of(backbone, rollouts, heads, config, **changes):
    painter = build_method("ssd", {"rounds": 2}, heads)
    given = {
        "config": config,
        "heads": heads,
        "backbone": backbone,
        "sampling": backbone.sampling,
        "painter": painter,
        "painter_name": "ssd",
        "rollouts": rollouts,
        "seed": 4000,
    }
    return Case(**given | changes)


def taught(data: Harvest, grid: Grid, **changes):
    """Heads after a short training on states, embeddings and a grid that may be wrong."""
    states = changes.get("states", data.states)
    embeddings = changes.get("embeddings", data.embeddings)
    torch.manual_seed(0)
    bank = HeadBank(states.shape[-1], horizontal=2, vertical=1, hidden=0.25)
    optimiser = torch.optim.AdamW(bank.parameters(), lr=3e-3)
    for step in range(STEPS):
        chosen = torch.arange(step, step + 4) % len(states)
        losses = bank.losses(lesson(states[chosen], embeddings[chosen], grid))
        optimiser.zero_grad()
        bank.objective(losses).backward()
        optimiser.step()
    return bank.requires_grad_(False).eval()


@pytest.fixture(scope="module")
def data(backbone, prompts):
    return harvest(backbone, paint_plainly(backbone, prompts[7::50][:IMAGES], backbone.sampling, seed=1))


@pytest.fixture(scope="module")
def good(backbone, prompts, data, tmp_path_factory):
    """Good heads and the folder of their bundle."""
    folder = tmp_path_factory.mktemp("doctor") / "heads"
    bank = taught(data, backbone.grid)
    save_bundle(
        folder,
        bank,
        backbone=backbone,
        sampling=backbone.sampling,
        training={},
        metrics={"ssd/accepted/v+1": 0.2, "ssd/accepted/h+1": 0.2},
        golden=golden(backbone, prompts[0]),
    )
    return bank, folder


def diagnosis(case):
    """The first cause, and the proofs up to it."""
    proofs = []
    for proof in examine(case):
        proofs.append(proof)
        if proof.ok is False:
            return proof.name, proofs
    assert [proof.name for proof in proofs] == list(CAUSES)
    return None, proofs


@pytest.fixture(scope="module")
def config(good):
    return read_config(good[1])


def test_good_heads_have_no_known_cause(backbone, rollouts, good, config):
    name, proofs = diagnosis(case_of(backbone, rollouts, good[0], config))
    assert name is None, first_cause(proofs)
    assert all(proof.ok for proof in proofs)
    assert first_cause(proofs) == "none of the known causes"


def test_states_after_the_norm(backbone, rollouts, data, config):
    with torch.no_grad():
        normed = backbone.parts["norm"](data.states)
    heads = taught(data, backbone.grid, states=normed)
    assert diagnosis(case_of(backbone, rollouts, heads, config))[0] == "norm side"


def test_a_bundle_of_states_after_the_norm(backbone, rollouts, good, config):
    wrong = replace(config, backbone=replace(config.backbone, states="post-norm"))
    assert diagnosis(case_of(backbone, rollouts, good[0], wrong))[0] == "norm side"


def test_another_dtype(backbone, rollouts, good, config):
    wrong = replace(config, backbone=replace(config.backbone, dtype="bfloat16"))
    name, proofs = diagnosis(case_of(backbone, rollouts, good[0], wrong))
    assert name == "dtype"
    assert "model.dtype=bfloat16" in first_cause(proofs)


def test_tokens_out_of_step(backbone, rollouts, data, config):
    heads = taught(data, backbone.grid, embeddings=data.embeddings.roll(-1, 1))
    assert diagnosis(case_of(backbone, rollouts, heads, config))[0] == "offset"


def test_heads_exchanged(backbone, rollouts, good, config):
    heads = HeadBank(backbone.width, 2, 1, 0.25)
    weights = good[0].state_dict()
    swap = {"predictors.h+1": "predictors.h+2", "predictors.h+2": "predictors.h+1"}
    heads.load_state_dict({swap.get(name[:14], name[:14]) + name[14:]: weights[name] for name in weights})
    assert diagnosis(case_of(backbone, rollouts, heads, config))[0] == "offset"


def test_rows_of_another_length_in_training(backbone, rollouts, good, data, config):
    """The heads along the row are good: only what a row is was wrong."""
    heads = taught(data, Grid(rows=8, cols=32))
    weights = good[0].state_dict()
    heads.load_state_dict({name: weights[name] for name in weights if "h+" in name}, strict=False)
    assert diagnosis(case_of(backbone, rollouts, heads, config))[0] == "grid"


def test_another_grid(backbone, rollouts, good, config):
    wrong = replace(config, backbone=replace(config.backbone, rows=24))
    assert diagnosis(case_of(backbone, rollouts, good[0], wrong))[0] == "grid"


def test_another_guidance(backbone, rollouts, good, config):
    live = replace(backbone.sampling, guidance=backbone.sampling.guidance + 2)
    name, proofs = diagnosis(case_of(backbone, rollouts, good[0], config, sampling=live))
    assert name == "guidance"
    assert f"sampling.guidance={backbone.sampling.guidance:g}" in first_cause(proofs)


def test_another_sampling(backbone, rollouts, good, config):
    live = replace(backbone.sampling, temperature=0.5)
    name, proofs = diagnosis(case_of(backbone, rollouts, good[0], config, sampling=live))
    assert name == "sampling drift"
    assert f"sampling.temperature={backbone.sampling.temperature:g}" in first_cause(proofs)


def test_other_weights(backbone, rollouts, good, config):
    wrong = replace(config, backbone=replace(config.backbone, fingerprint="0" * 64))
    assert diagnosis(case_of(backbone, rollouts, good[0], wrong))[0] == "fingerprint"


def test_a_library_that_computes_something_else(backbone, rollouts, good, config):
    recorded = config.golden
    logits = [[value + 1 for value in row] for row in recorded.logits]
    wrong = replace(config, golden=replace(recorded, logits=logits, transformers="5.0.0"))
    name, proofs = diagnosis(case_of(backbone, rollouts, good[0], wrong))
    assert name == "library version"
    assert "transformers==5.0.0" in first_cause(proofs)


def test_a_newer_library_that_computes_the_same(backbone, rollouts, good, config):
    right = replace(config, golden=replace(config.golden, transformers="5.0.0"))
    assert diagnosis(case_of(backbone, rollouts, good[0], right))[0] is None


def test_prompts_unlike_those_of_training(backbone, rollouts, good, config):
    wrong = replace(config, metrics={"ssd/accepted/v+1": 0.99})
    name, proofs = diagnosis(case_of(backbone, rollouts, good[0], wrong))
    assert name == "acceptance"
    assert "rollouts.images" in first_cause(proofs)


def test_heads_of_another_width_are_named_by_what_differs(backbone, rollouts, config):
    heads = HeadBank(16, 2, 1)
    wrong = replace(config, backbone=replace(config.backbone, width=16, fingerprint="0" * 64))
    name, proofs = diagnosis(case_of(backbone, rollouts, heads, wrong, painter=None))
    assert name == "fingerprint"
    assert [proof.name for proof in proofs if proof.ok is None] == ["norm side", "offset", "grid"]


def test_the_command(good):
    ill = run_module("eval", "doctor", f"heads={good[1]}", "images=2", "sampling.temperature=0.3")
    assert ill.returncode == 1, ill.stderr
    assert ill.stdout.splitlines()[-1].startswith("first cause: sampling drift: pass sampling.temperature=1")
