"""A bundle comes back as it was saved, holds heads alone, and replaces another as a whole."""

import json
import resource
import subprocess
import sys

import pytest
import torch

from backbones.contract import Sampling
from backbones.errors import RowcastError
from checkpoints import load_heads
from checkpoints.bundle import attach_results, load_bundle, save_bundle
from heads.bank import HeadBank
from heads.options import HEADS
from tests.backbones.tiny import tiny_backbone
from tests.checkpoints.bundles import random_bank, random_heads, save

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def backbone():
    return tiny_backbone()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("hidden", [1.0, 0.7])
def test_round_trip_is_bit_exact(tmp_path, backbone, dtype, hidden):
    bank = random_bank(backbone, hidden=hidden).to(dtype)
    save(tmp_path / "new" / "bundle", bank, backbone)
    loaded = load_heads(tmp_path / "new" / "bundle", backbone)
    assert loaded.offsets == bank.offsets
    for (name, saved), (other, found) in zip(bank.named_parameters(), loaded.named_parameters(), strict=True):
        assert name == other
        assert found.dtype == dtype
        assert torch.equal(saved, found)


def test_loaded_heads_are_frozen_and_compute_the_same(tmp_path, backbone):
    bank = random_bank(backbone)
    save(tmp_path, bank, backbone)
    loaded = load_heads(str(tmp_path), backbone)
    state, embedding = torch.randn(2, 5, backbone.width)
    assert all(torch.equal(bank(o, state, embedding), loaded(o, state, embedding)) for o in bank.offsets)
    assert not loaded.training
    assert not any(weight.requires_grad for weight in loaded.parameters())


@pytest.mark.parametrize("kind", HEADS)
def test_heads_of_every_kind_come_back(tmp_path, backbone, kind):
    heads = random_heads(backbone, kind)
    save(tmp_path, heads, backbone)
    loaded = load_heads(tmp_path, backbone)
    assert type(loaded) is type(heads)
    assert loaded.facts == heads.facts
    assert same(loaded.state_dict(), heads.state_dict())
    given = torch.randn(2, 1, 5, backbone.width)
    outputs = [one(*given) if kind == "eagle" else one(one.offsets[-1], *given) for one in (heads, loaded)]
    assert torch.equal(*outputs)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["heads"] == {**heads.facts, "width": 32, "dtype": "float32"}


def same(left, right):
    return left.keys() == right.keys() and all(left[name].equal(right[name]) for name in left)


def test_config_describes_the_bundle(tmp_path, backbone):
    save_bundle(
        tmp_path,
        random_bank(backbone),
        backbone=backbone,
        sampling=Sampling(guidance=3.0, temperature=0.5, top_k=7),
        training={"steps": 4, "prompts": ["a red sneaker"]},
        metrics={"accepted": {"h+1": 0.25}},
    )
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["schema_version"] == 2
    assert config["heads"] == {
        "name": "ssd",
        "width": 32,
        "horizontal": 3,
        "vertical": 2,
        "hidden": 1.0,
        "columns": 1,
        "draft_law_weight": 0.0,
        "correction": 2.0,
        "law_weight": 0.3,
        "dtype": "float32",
    }
    assert config["backbone"]["states"] == "pre-norm"
    assert config["backbone"]["fingerprint"] == backbone.fingerprint
    loaded = load_bundle(tmp_path, backbone).config
    assert loaded.sampling == Sampling(guidance=3.0, temperature=0.5, top_k=7)
    assert loaded.training == {"steps": 4, "prompts": ["a red sneaker"]}
    assert loaded.metrics == {"accepted": {"h+1": 0.25}}


def test_a_bundle_holds_heads_alone(tmp_path, backbone):
    bank = random_bank(backbone)
    save(tmp_path, bank, backbone)
    weights = 4 * sum(weight.numel() for weight in bank.parameters())
    assert weights < (tmp_path / "heads.safetensors").stat().st_size < weights + 8192
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < weights + 16384
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"heads.safetensors", "config.json", "README.md"}


def test_saving_again_replaces_the_bundle_and_leaves_other_files(tmp_path, backbone):
    for name in ("notes.txt", "heads.safetensors.bak"):
        (tmp_path / name).write_text("mine")
    save(tmp_path, random_bank(backbone, seed=1), backbone, metrics={"loss": 1.0})
    later = random_bank(backbone, seed=2, vertical=1)
    save(tmp_path, later, backbone, metrics={"loss": 0.5})
    bundle = load_bundle(tmp_path, backbone)
    assert bundle.config.metrics == {"loss": 0.5}
    assert torch.equal(bundle.bank.predictors["v+1"].up.weight, later.predictors["v+1"].up.weight)
    assert "0.5" in (tmp_path / "README.md").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "README.md",
        "config.json",
        "heads.safetensors",
        "heads.safetensors.bak",
        "notes.txt",
    ]


def test_results_stay_with_their_heads(tmp_path, backbone):
    bank = random_bank(backbone)
    save(tmp_path, bank, backbone)
    attach_results(tmp_path, {"speed_up": 2.5})
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["speed_up"] == 2.5
    assert results["weights_sha256"] == load_bundle(tmp_path, backbone).config.weights_sha256
    with pytest.raises(RowcastError, match="expected finite numbers"):
        attach_results(tmp_path, {"speed_up": float("inf")})
    with pytest.raises(RowcastError, match="expected a head bundle"):
        attach_results(tmp_path / "nowhere", {"speed_up": 2.5})
    save(tmp_path, bank, backbone, metrics={"loss": 0.5})
    assert (tmp_path / "results.json").exists()
    save(tmp_path, random_bank(backbone, seed=1), backbone)
    assert not (tmp_path / "results.json").exists()


def test_bad_values_are_refused_and_the_old_bundle_stays(tmp_path, backbone):
    save(tmp_path, random_bank(backbone), backbone, metrics={"loss": 1.0})
    with pytest.raises(RowcastError, match="expected finite numbers"):
        save(tmp_path, random_bank(backbone, seed=1), backbone, metrics={"loss": float("nan")})
    with pytest.raises(RowcastError, match="expected draft heads in one of float32"):
        save(tmp_path, random_bank(backbone).double(), backbone)
    mixed = random_bank(backbone)
    mixed.predictors["h+1"].bfloat16()
    with pytest.raises(RowcastError, match="found bfloat16 and float32"):
        save(tmp_path, mixed, backbone)
    with pytest.raises(RowcastError, match="head width '8'"):
        save(tmp_path, HeadBank(8), backbone)
    with pytest.raises(RowcastError, match=r"heads.vertical: expected 1 to 256, found 0"):
        save(tmp_path, HeadBank(backbone.width, vertical=0), backbone)
    assert load_bundle(tmp_path, backbone).config.metrics == {"loss": 1.0}
    assert {path.name for path in tmp_path.iterdir()} == {"heads.safetensors", "config.json", "README.md"}


def test_a_place_that_cannot_be_written_is_an_error(tmp_path, backbone):
    (tmp_path / "file").write_text("")
    with pytest.raises(RowcastError, match=r"expected to write .*/bundle, found .*; free space"):
        save(tmp_path / "file" / "bundle", random_bank(backbone), backbone)


def test_a_full_disk_keeps_the_old_bundle(tmp_path, backbone):
    """A file size limit makes the kernel refuse the bytes, as a full disk does."""
    save(tmp_path, random_bank(backbone), backbone, metrics={"loss": 1.0})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(RowcastError, match="expected to write the head bundle into"):
            save(tmp_path, random_bank(backbone, seed=1), backbone)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert load_bundle(tmp_path, backbone).config.metrics == {"loss": 1.0}
    assert {path.name for path in tmp_path.iterdir()} == {"heads.safetensors", "config.json", "README.md"}


def test_importing_the_package_is_light():
    script = "import sys, checkpoints; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
