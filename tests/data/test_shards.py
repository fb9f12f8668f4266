"""Shards and sets on disk: what is written comes back, and no kind of damage passes in silence."""

import json
import warnings
from pathlib import Path

import pytest
import safetensors.torch
import torch
import webdataset

from backbones.errors import RowcastError
from data.manifest import Entry, cover, entry_name, gaps
from data.rollouts import RolloutSet
from data.shards import pack, publish
from data.storage import open_storage
from tests.data.sets import GRID, SAMPLING, entries, rollout, write_set

pytestmark = pytest.mark.unit


def test_images_come_back_as_they_were_written(tmp_path):
    rollouts = RolloutSet(write_set(tmp_path / "set"))
    rollouts.verify()
    assert len(rollouts) == 12
    for image in (0, 4, 5, 11, -1):
        wanted = rollout(image % 12)
        found = rollouts[image]
        assert torch.equal(found.tokens, wanted.tokens)
        assert (found.key, found.prompt, found.seed, found.sample) == (wanted.key, wanted.prompt, 7, 0)
    with pytest.raises(IndexError):
        rollouts[12]
    assert [found.key for found in rollouts] == [rollout(image).key for image in range(12)]


def test_a_prefix_of_a_set_is_a_set(tmp_path):
    folder = write_set(tmp_path / "set")
    assert [found.key for found in RolloutSet(folder, 7)] == [rollout(image).key for image in range(7)]
    with pytest.raises(RowcastError, match=r"expected 13 rollouts in .*, found 12"):
        RolloutSet(folder, 13)


def test_plain_webdataset_reads_the_shards(tmp_path):
    folder = write_set(tmp_path / "set")
    urls = [str(path) for path in sorted(folder.glob("*.tar"))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = list(webdataset.WebDataset(urls, shardshuffle=False))
    assert [sample["__key__"] for sample in samples] == [rollout(image).key for image in range(12)]
    assert all(
        torch.equal(safetensors.torch.load(sample["safetensors"])["tokens"].long(), rollout(i).tokens)
        for i, sample in enumerate(samples)
    )
    origin = json.loads(samples[3]["json"])
    assert origin["prompt"] == rollout(3).prompt
    assert origin["sampling"] == {"guidance": 2.0, "temperature": 1.0, "top_k": 5, "top_p": None}
    assert origin["grid"] == {"rows": 3, "cols": 4}


def test_a_shard_depends_on_its_images_alone(monkeypatch):
    images = [rollout(image) for image in range(3)]
    first = pack(images, 0, grid=GRID, sampling=SAMPLING)
    monkeypatch.setattr("time.time", lambda: 1e9)
    assert pack(images, 0, grid=GRID, sampling=SAMPLING) == first
    assert pack(images[::-1], 0, grid=GRID, sampling=SAMPLING) != first


def test_a_missing_shard_is_named(tmp_path):
    folder = write_set(tmp_path / "set")
    shard = entries(folder)[2].shard
    (folder / shard).unlink()
    with pytest.raises(RowcastError, match=f"expected the shard .*{shard}, found none: run `python -m data`"):
        RolloutSet(folder)
    assert len(RolloutSet(folder, 10)) == 10


def entry(first: int, last: int) -> Entry:
    samples = last - first
    return Entry(shard="", first=first, samples=samples, bytes=samples, sha256="", ends=[], crc32=[])


def spans(chosen):
    return [(one.first, one.last) for one in chosen]


def test_shards_may_overlap_and_gaps_are_seen():
    """As where processes were asked for different numbers of images at a time."""
    made = [entry(0, 3), entry(3, 5), entry(3, 6), entry(5, 8), entry(9, 12)]
    assert spans(cover(made, 8)) == [(0, 3), (3, 6), (5, 8)]
    assert spans(cover(made[::-1], 6)) == [(0, 3), (3, 6)]
    assert spans(cover(made, 12)) == [(0, 3), (3, 6), (5, 8)], "up to the gap"
    assert gaps(made, 14) == [range(8, 9), range(12, 14)]
    assert gaps(made, 8) == gaps(made, 6) == []
    assert gaps(made[1:], 2) == [range(2)]
    assert gaps([], 4) == [range(4)]


def test_an_image_of_overlapping_shards_is_read_from_either(tmp_path):
    folder = write_set(tmp_path / "set")
    storage = open_storage(folder)
    publish(storage, *pack([rollout(i) for i in range(3, 9)], 3, grid=GRID, sampling=SAMPLING))
    assert [found.key for found in RolloutSet(folder)] == [rollout(image).key for image in range(12)]
    storage.remove("rollouts-00000005-00000010.tar")
    with pytest.raises(RowcastError, match=r"00000005-00000010\.tar, found none"):
        RolloutSet(folder)
    assert [found.key for found in RolloutSet(folder, 9)] == [rollout(image).key for image in range(9)]


@pytest.mark.parametrize("content", ["nonsense\n", '{"shard": "x"}\n', "[]\n", ""])
def test_a_spoilt_entry_is_refused(tmp_path, content):
    folder = write_set(tmp_path / "set")
    path = folder / entry_name(entries(folder)[1].shard)
    path.write_text(content)
    with pytest.raises(RowcastError, match=rf"entry of a shard in .*{path.name}, found another .*delete it"):
        RolloutSet(folder)


def test_a_gap_is_refused(tmp_path):
    folder = write_set(tmp_path / "set")
    (folder / entry_name(entries(folder)[1].shard)).unlink()
    with pytest.raises(RowcastError, match=r"expected 12 rollouts in .*, found 5: run"):
        RolloutSet(folder, 12)
    assert len(RolloutSet(folder, 5)) == 5


def test_a_folder_without_rollouts_says_how_to_make_them(tmp_path):
    with pytest.raises(RowcastError, match=r"found no contract.json: run `python -m data"):
        RolloutSet(tmp_path)
    (tmp_path / "contract.json").write_text('{"schema": 9}')
    with pytest.raises(RowcastError, match=r"contract.json, found: schema 9 is not 2"):
        RolloutSet(tmp_path)
    Path(tmp_path / "contract.json").write_bytes(b"\xff")
    with pytest.raises(RowcastError, match="expected a rollout contract"):
        RolloutSet(tmp_path)


def test_tokens_of_another_grid_are_refused(tmp_path):
    folder = write_set(tmp_path / "set")
    path = folder / "contract.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"codes": 3}))
    with pytest.raises(RowcastError, match=r"expected 12 image tokens in 0..2 in image 00000000"):
        RolloutSet(folder)[0]
