"""Rollouts: each image is its own, growth leaves old shards alone, and a folder never mixes two contracts."""

import json
import resource
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from backbones.errors import RowcastError
from data.rollout import make_rollouts
from data.rollouts import RolloutSet
from decoding.engine import generate
from decoding.methods import build_method
from decoding.noise import Noise
from tests.backbones.tiny import tiny_backbone
from tests.data.sets import entries, files, shards

pytestmark = pytest.mark.unit

PROMPTS = ["a bag", "a longer prompt for a sneaker", "two words"]


def make(folder, images=5, backbone=None, prompts=PROMPTS, **options) -> RolloutSet:
    backbone = backbone or tiny_backbone(2, 2)
    return make_rollouts(
        backbone, prompts, folder, **{"images": images, "batch": 2, "shard_images": 3, "seed": 1} | options
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A set made in one go: five images in two shards."""
    return make(tmp_path_factory.mktemp("rollouts") / "whole")


def test_an_image_is_what_its_prompt_and_noise_give_alone(whole):
    backbone = tiny_backbone(2, 2)
    whole.verify()
    for rollout in whole:
        noise = Noise(1, [rollout.prompt], [rollout.sample])
        alone = generate(backbone, [rollout.prompt], build_method("ar", {}, None), noise)
        assert torch.equal(alone.tokens[0], rollout.tokens)
    assert len({(rollout.prompt, rollout.sample) for rollout in whole}) == 5


def test_batch_and_shards_do_not_change_images(whole, tmp_path):
    other = make(tmp_path, batch=4, shard_images=5)
    assert [rollout.tokens.tolist() for rollout in other] == [rollout.tokens.tolist() for rollout in whole]
    reseeded = make(tmp_path / "seed", seed=2)
    assert [rollout.tokens.tolist() for rollout in reseeded] != [rollout.tokens.tolist() for rollout in whole]


def test_a_complete_set_is_only_opened(whole):
    before = {path: path.stat().st_mtime_ns for path in Path(whole.folder).iterdir()}
    again = make(whole.folder)
    assert len(again) == 5
    assert {path: path.stat().st_mtime_ns for path in Path(whole.folder).iterdir()} == before


def test_growth_only_adds_shards(whole, tmp_path):
    make(tmp_path, images=2)
    small = shards(tmp_path)
    grown = make(tmp_path, images=5)
    assert {name: shards(tmp_path)[name] for name in small} == small
    assert [(entry.first, entry.samples) for entry in entries(tmp_path)] == [(0, 2), (2, 1), (3, 2)]
    assert [rollout.tokens.tolist() for rollout in grown] == [rollout.tokens.tolist() for rollout in whole]
    assert len(make(tmp_path, images=4)) == 4


def test_a_deleted_shard_is_made_again(whole, tmp_path):
    made = make(tmp_path)
    before = shards(tmp_path)
    for entry in entries(tmp_path):
        (tmp_path / entry.shard).unlink()
        with pytest.raises(RowcastError, match="expected the shard"):
            RolloutSet(tmp_path)
        make(tmp_path).verify()
        assert shards(tmp_path) == before
    assert len(made) == 5


def test_a_damaged_shard_is_refused_before_any_work(tmp_path, capsys):
    make(tmp_path)
    path = tmp_path / entries(tmp_path)[0].shard
    path.write_bytes(path.read_bytes()[:-1])
    capsys.readouterr()
    with pytest.raises(RowcastError, match="delete the shard and run"):
        make(tmp_path, images=9)
    assert "image/s" not in capsys.readouterr().err


CHANGES = {
    "fingerprint": {"backbone": tiny_backbone(2, 2, seed=1)},
    "grid.cols": {"backbone": tiny_backbone(2, 3)},
    "codes": {"backbone": tiny_backbone(2, 2, codes=12)},
    "sampling.guidance": {"sampling": replace(tiny_backbone(2, 2).sampling, guidance=3.0)},
    "sampling.top_k": {"sampling": replace(tiny_backbone(2, 2).sampling, top_k=4)},
    "seed": {"seed": 2},
    "prompts": {"prompts": PROMPTS[:2]},
}


@pytest.mark.parametrize("field", CHANGES)
def test_another_contract_is_refused_with_the_field(whole, field):
    before = shards(whole.folder)
    with pytest.raises(RowcastError, match=rf"expected rollouts with .*{field} .* \(found .*contract.json"):
        make(whole.folder, images=9, **CHANGES[field])
    assert shards(whole.folder) == before


def test_a_contract_binds_only_where_an_image_exists(whole, tmp_path):
    """A prompt list that the model refused is corrected in the same folder; one with an image stays."""
    with pytest.raises(RowcastError, match="at least one word"):
        make(tmp_path, prompts=["  "])
    make(tmp_path)
    assert files(tmp_path) == files(whole.folder)
    with pytest.raises(RowcastError, match=r"hash of rollouts.prompts .* \(found"):
        make(tmp_path, prompts=PROMPTS[:1])


def test_shards_without_a_contract_are_not_adopted(tmp_path):
    make(tmp_path)
    (tmp_path / "contract.json").unlink()
    with pytest.raises(RowcastError, match=r"expected contract.json beside the shards"):
        make(tmp_path)


@pytest.mark.parametrize("option", ["images", "batch", "shard_images"])
def test_sizes_below_one_are_refused(tmp_path, option):
    with pytest.raises(RowcastError, match=rf"rollouts.{option} of at least 1, found 0"):
        make(tmp_path, **{option: 0})


def test_a_prompt_that_the_model_refuses_stops_before_sampling(tmp_path):
    with pytest.raises(RowcastError, match="at least one word"):
        make(tmp_path, prompts=[*PROMPTS, "  "])
    assert not shards(tmp_path)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RowcastError, match=r"expected a folder at .*file/set, found a file there or above"):
        make(tmp_path / "file" / "set")


def test_a_full_disk_keeps_what_is_complete(whole, tmp_path):
    """The limit on file sizes stands for the full disk: writing fails half way through a shard."""
    make(tmp_path, images=3)
    before = shards(tmp_path)
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(RowcastError, match="found: File too large; complete shards are kept"):
            make(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert shards(tmp_path) == before
    assert not list(tmp_path.glob("*.tmp"))
    make(tmp_path).verify()
    assert shards(tmp_path) == shards(whole.folder)


def test_an_interrupt_keeps_what_is_complete(whole, tmp_path, monkeypatch):
    """Ctrl-C in the second shard, and the bar goes on from the first one's images."""
    backbone = tiny_backbone(2, 2)
    begin, calls = backbone.begin, []

    def interrupted(prompt):
        calls.append(prompt)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return begin(prompt)

    monkeypatch.setattr(backbone, "begin", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, backbone=backbone)
    assert [entry.samples for entry in entries(tmp_path)] == [3]
    make(tmp_path)
    assert shards(tmp_path) == shards(whole.folder)


@pytest.mark.parametrize("left", ["a temporary shard", "a shard without an entry", "a torn entry", "a claim"])
def test_what_a_kill_leaves_is_put_right(whole, tmp_path, left):
    make(tmp_path, images=3)
    second = entries(whole.folder)[1]
    content = (Path(whole.folder) / second.shard).read_bytes()
    if left == "a temporary shard":
        (tmp_path / f"{second.shard}.0.tmp").write_bytes(content[:700])
    if left == "a shard without an entry":
        (tmp_path / second.shard).write_bytes(content)
    if left == "a torn entry":
        (tmp_path / second.shard).write_bytes(content)
        (tmp_path / "rollouts-00000003-00000005.json.0.tmp").write_bytes(b'{"shard":"rollouts-000')
    if left == "a claim":
        with subprocess.Popen(["true"]) as process:
            holder = {"host": socket.gethostname(), "pid": process.pid}
        (tmp_path / f"{second.shard}.claim").write_text(json.dumps(holder))
    make(tmp_path).verify()
    assert files(tmp_path) == files(whole.folder)
