"""Shards and sets on disk: what is written comes back, and no kind of damage passes in silence."""

import io
import json
import tarfile
import warnings
from pathlib import Path

import pytest
import safetensors.torch
import torch
import webdataset

from backbones.errors import RowcastError
from data.manifest import FILE as MANIFEST
from data.manifest import Entry, read_manifest
from data.rollouts import RolloutSet
from data.shards import pack
from tests.data.sets import GRID, SAMPLING, rollout, write_set

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


def cut(at):
    return lambda content, entry: content[: at(entry)]


def replace(at, new):
    def damage(content: bytes, entry: Entry) -> bytes:
        start = at(entry)
        old = content[start : start + len(new)]
        assert old != new
        return content[:start] + new + content[start + len(new) :]

    return damage


def extra_sample(content: bytes, entry: Entry) -> bytes:
    buffer = io.BytesIO(content[: entry.ends[-1]])
    buffer.seek(entry.ends[-1])
    with tarfile.open(fileobj=buffer, mode="w") as members:
        members.addfile(tarfile.TarInfo("00000099.json"), io.BytesIO(b""))
    return buffer.getvalue()


def flip(content: bytes, entry: Entry) -> bytes:
    place = entry.ends[1] - 512
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def without_one_member(content: bytes, entry: Entry) -> bytes:
    """The second image keeps its first member only; the file keeps its size."""
    start = entry.ends[0]
    gone = content[start + 1024 : entry.ends[1]]
    return content[: start + 1024] + content[entry.ends[1] :] + bytes(len(gone))


DAMAGE = {
    "cut inside data": (cut(lambda entry: entry.ends[1] - 100), "first at image 00000006"),
    "cut inside a header": (cut(lambda entry: entry.ends[0] + 100), "first at image 00000006"),
    "cut between images": (cut(lambda entry: entry.ends[0]), "first at image 00000006"),
    "cut between members": (cut(lambda entry: entry.ends[0] + 1024), "first at image 00000006"),
    "zeroed header": (replace(lambda entry: entry.ends[0], bytes(512)), "first at image 00000006"),
    "garbage header": (replace(lambda entry: entry.ends[0], b"\xff" * 512), "first at image 00000006"),
    "bit flip": (flip, "first at image 00000006"),
    "missing member": (without_one_member, "first at image 00000006"),
    "empty file": (lambda content, entry: b"", "first at image 00000005"),
    "extra image": (extra_sample, "after its last image"),
    "bytes after the end": (lambda content, entry: content + b"x", "after its last image"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found_and_named(tmp_path, kind):
    damage, place = DAMAGE[kind]
    folder = write_set(tmp_path / "set")
    entry = read_manifest(folder)[1]
    path = folder / entry.shard
    content = path.read_bytes()
    path.write_bytes(damage(content, entry))
    with pytest.raises(
        RowcastError, match=rf"{entry.shard}.*\(damaged {place}\).*delete the shard"
    ) as caught:
        RolloutSet(folder).verify()
    assert "\n" not in str(caught.value)
    path.write_bytes(content)
    RolloutSet(folder).verify()


@pytest.mark.parametrize("kind", ["zeroed header", "bit flip", "missing member"])
def test_damage_that_keeps_the_size_is_found_by_reading_alone(tmp_path, kind):
    folder = write_set(tmp_path / "set")
    entry = read_manifest(folder)[1]
    path = folder / entry.shard
    path.write_bytes(DAMAGE[kind][0](path.read_bytes(), entry))
    rollouts = RolloutSet(folder)
    assert rollouts[5].prompt == rollout(5).prompt
    with pytest.raises(RowcastError, match=r"expected checksum .* first at image 00000006"):
        rollouts[6]


def test_webdataset_alone_would_not_see_most_damage(tmp_path):
    """The control: why sizes and checksums are kept at all."""
    folder = write_set(tmp_path / "set")
    entry = read_manifest(folder)[1]
    path = folder / entry.shard
    content = path.read_bytes()
    silent = []
    for kind, (damage, _) in DAMAGE.items():
        path.write_bytes(damage(content, entry))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                list(webdataset.WebDataset([str(path)], shardshuffle=False))
            silent.append(kind)
        except (tarfile.ReadError, ValueError):
            pass
    assert {"zeroed header", "bit flip", "cut between images", "cut between members"} <= set(silent)


def test_a_missing_shard_is_named(tmp_path):
    folder = write_set(tmp_path / "set")
    shard = read_manifest(folder)[2].shard
    (folder / shard).unlink()
    with pytest.raises(RowcastError, match=f"expected the shard .*{shard}, found none: run `python -m data`"):
        RolloutSet(folder)
    assert len(RolloutSet(folder, 10)) == 10


def test_the_latest_manifest_line_of_a_shard_counts_and_a_torn_one_does_not(tmp_path):
    folder = write_set(tmp_path / "set")
    path = folder / MANIFEST
    line = path.read_text().splitlines()[1]
    stale = json.dumps(json.loads(line) | {"sha256": "0"})
    path.write_text(stale + "\n" + path.read_text())
    entries = read_manifest(folder)
    assert len(entries) == 3
    RolloutSet(folder).verify()
    path.write_text(path.read_text() + line[:40])
    assert read_manifest(folder) == entries


@pytest.mark.parametrize("lines", ["nonsense\n", '{"shard": "x"}\n', "[]\n", "\n"])
def test_a_spoilt_manifest_is_refused(tmp_path, lines):
    folder = write_set(tmp_path / "set")
    path = folder / MANIFEST
    path.write_text(path.read_text() + lines)
    with pytest.raises(RowcastError, match=r"manifest.jsonl, found that line 4 is not one"):
        RolloutSet(folder)


def test_a_gap_in_the_manifest_is_refused(tmp_path):
    folder = write_set(tmp_path / "set")
    path = folder / MANIFEST
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[2])
    with pytest.raises(RowcastError, match="starts at image 10 where 5 is next"):
        RolloutSet(folder)


def test_a_folder_without_rollouts_says_how_to_make_them(tmp_path):
    with pytest.raises(RowcastError, match=r"found no contract.json: run `python -m data"):
        RolloutSet(tmp_path)
    (tmp_path / "contract.json").write_text('{"schema": 9}')
    with pytest.raises(RowcastError, match=r"contract.json, found: schema 9 is not 1"):
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
