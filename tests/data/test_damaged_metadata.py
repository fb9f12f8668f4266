"""Contracts and manifests that somebody edited, and folders where files should be."""

import json

import pytest

from backbones.errors import RowcastError
from data.manifest import FILE as MANIFEST
from data.manifest import read_manifest
from data.rollouts import RolloutSet
from data.shards import read_bytes
from tests.data.sets import write_set

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "change",
    [
        {"grid": 5},
        {"grid": {"rows": "a", "cols": 4}},
        {"grid": {"rows": 3}},
        {"sampling": {"guidance": None}},
        {"seed": True},
        {"extra": 1},
    ],
)
def test_a_contract_of_other_types_is_refused(tmp_path, change):
    folder = write_set(tmp_path / "set")
    path = folder / "contract.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RowcastError, match=r"expected a rollout contract of this version in .*, found: "):
        RolloutSet(folder)
    path.write_text("5")
    with pytest.raises(RowcastError, match="in place of 5"):
        RolloutSet(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"first": "a"},
        {"samples": 2.0},
        {"samples": 3},
        {"ends": 7},
        {"ends": ["a"]},
        {"ends": [-1, 5]},
        {"ends": [2048, 1024]},
        {"ends": [1024, 10**9]},
        {"crc32": [1]},
        {"shard": "../elsewhere.tar"},
        {"shard": "\0.tar"},
    ],
)
def test_a_manifest_of_other_types_or_bytes_is_refused(tmp_path, change):
    folder = write_set(tmp_path / "set")
    path = folder / MANIFEST
    lines = path.read_text().splitlines()
    lines[2] = json.dumps(json.loads(lines[2]) | change)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(RowcastError, match=r"manifest.jsonl, found that line 3 is not one"):
        RolloutSet(folder)


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path):
    folder = write_set(tmp_path / "set")
    shard = folder / read_manifest(folder)[0].shard
    shard.unlink()
    opened = shard.with_name("open")
    shard.mkdir()
    with pytest.raises(RowcastError, match=r"expected the shard .* found something else: move it away"):
        RolloutSet(folder)
    with pytest.raises(RowcastError, match=r"expected to read the shard .* Is a directory"):
        read_bytes(folder, read_manifest(folder)[0])
    (folder / MANIFEST).rename(opened)
    (folder / MANIFEST).mkdir()
    with pytest.raises(RowcastError, match=r"cannot be read \(Is a directory\)"):
        RolloutSet(folder)
