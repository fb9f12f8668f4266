"""Contracts and manifests that somebody edited, and folders where files should be."""

import json

import pytest

from backbones.errors import RowcastError
from data.manifest import entry_name
from data.rollouts import RolloutSet
from tests.data.sets import entries, write_set

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
        {"shard": "rollouts-00000000-00000005.tar"},
        {"first": -5},
    ],
)
def test_an_entry_of_other_types_or_bytes_is_refused(tmp_path, change):
    folder = write_set(tmp_path / "set")
    path = folder / entry_name(entries(folder)[2].shard)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RowcastError, match=rf"entry of a shard in .*{path.name}, found another thing"):
        RolloutSet(folder)


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path):
    folder = write_set(tmp_path / "set")
    shard = folder / entries(folder)[0].shard
    rollouts = RolloutSet(folder)
    shard.unlink()
    shard.mkdir()
    with pytest.raises(RowcastError, match=r"expected to read the shard .* Is a directory"):
        RolloutSet(folder)
    with pytest.raises(RowcastError, match=r"shard .* Is a directory"):
        rollouts[0]
