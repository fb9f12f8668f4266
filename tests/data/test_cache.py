"""The cache keeps what it is given under its cap; damage, kills and full disks cost nothing but time."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import webdataset

from backbones.errors import RowcastError
from data.cache import StateCache
from data.state_shards import index_of

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]


def cache(folder, limit=10**6, content="a" * 16, **options):
    return StateCache(folder, limit=limit, content=content, **options)


def tensor(number, size=1000):
    return {"states": torch.full((size,), float(number), dtype=torch.bfloat16)}


def fill(store, count, start=0):
    for number in range(start, start + count):
        store.put(f"key{number}", tensor(number))
    return store


def held(store, count=20):
    """Which of the keys it has, all of them right."""
    found = []
    for number in range(count):
        kept = store.get(f"key{number}")
        if kept is not None:
            assert torch.equal(kept["states"], tensor(number)["states"])
            assert kept["states"].dtype == torch.bfloat16
            found.append(number)
    return found


def bytes_in(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def damaged_shard(folder, change):
    [shard] = folder.glob("*/*.tar")
    content = bytearray(shard.read_bytes())
    shard.write_bytes(change(content))
    return shard


def test_entries_are_there_at_once_and_in_the_next_run(tmp_path):
    store = fill(cache(tmp_path), 5)
    assert held(store) == [0, 1, 2, 3, 4]
    store.close()
    assert held(fill(cache(tmp_path), 2, start=4)) == [0, 1, 2, 3, 4, 5]
    [shard] = tmp_path.glob("*/*0.tar")
    samples = list(webdataset.WebDataset(str(shard), shardshuffle=False))
    assert [sample["__key__"] for sample in samples] == [f"key{n}" for n in range(5)]


def test_the_cap_holds_and_what_was_kept_stays(tmp_path, capsys):
    store = fill(cache(tmp_path, limit=30_000), 20)
    first = held(store)
    assert first == list(range(len(first)))
    assert 3 <= len(first) < 20
    store.close()
    assert bytes_in(tmp_path) <= 30_000
    assert "data.cache_gb are used" in capsys.readouterr().out
    again = fill(cache(tmp_path, limit=30_000), 20)
    assert held(again) == first


def test_other_contents_make_room_oldest_first(tmp_path):
    for number, content in enumerate(("b" * 16, "c" * 16)):
        fill(cache(tmp_path, content=content), 5).close()
        for path in tmp_path.glob(f"*/{content}*"):
            os.utime(path, (number, number))
    assert held(cache(tmp_path, content="b" * 16)) == [0, 1, 2, 3, 4], "several contents live in one folder"
    fill(cache(tmp_path, limit=bytes_in(tmp_path) + 100), 2).close()
    assert held(cache(tmp_path, content="b" * 16)) == []
    assert held(cache(tmp_path, content="c" * 16)) == [0, 1, 2, 3, 4]
    assert held(cache(tmp_path)) == [0, 1]


def test_a_content_that_is_in_use_is_never_dropped(tmp_path):
    live = fill(cache(tmp_path, content="b" * 16), 5)
    fill(cache(tmp_path, content="b" * 16), 5).close()
    greedy = fill(cache(tmp_path, limit=bytes_in(tmp_path) + 100), 2)
    assert greedy.full
    assert held(live) == [0, 1, 2, 3, 4]


def test_several_writers_share_a_folder_and_its_cap(tmp_path):
    one, two = cache(tmp_path, limit=60_000), cache(tmp_path, limit=60_000)
    fill(one, 10)
    fill(two, 10, start=10)
    one.close()
    two.close()
    assert bytes_in(tmp_path) <= 60_000
    assert one._own != two._own
    assert len(held(one)) == 10, "who comes first has the room"
    assert two.full
    assert held(cache(tmp_path, limit=60_000)) == sorted({*held(one), *held(two)})


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:3] + content[3:4000][::-1] + content[4000:],
        lambda content: content[:5000],
        lambda content: b"",
        lambda content: content[:600] + bytes([content[600] ^ 1]) + content[601:],
    ],
    ids=["garbage", "cut", "empty", "bit flip"],
)
def test_damage_is_found_named_and_computed_anew(tmp_path, capsys, change):
    fill(cache(tmp_path), 6).close()
    shard = damaged_shard(tmp_path, change)
    store = cache(tmp_path)
    left = held(store)
    assert len(left) < 6
    assert f"warning: damaged states in {shard}" in capsys.readouterr().out
    fill(store, 6)
    assert held(store) == [0, 1, 2, 3, 4, 5]
    store.close()
    capsys.readouterr()
    assert held(cache(tmp_path)) == [0, 1, 2, 3, 4, 5]
    assert capsys.readouterr().out == "", "no later run trips over it"


def test_a_damaged_index_counts_for_nothing(tmp_path):
    fill(cache(tmp_path), 3).close()
    [shard] = tmp_path.glob("*/*.tar")
    index_of(shard).write_text('{"key0": [1,')
    assert held(cache(tmp_path)) == []


def test_a_kill_leaves_finished_shards_and_no_lock(tmp_path):
    script = (
        "import os, signal, sys; from pathlib import Path; import tests.data.test_cache as t\n"
        "folder = Path(sys.argv[1]); t.fill(t.cache(folder), 4).close()\n"
        "t.fill(t.cache(folder), 4, start=4); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, check=False)
    assert len(list(tmp_path.glob("*/*.tar"))) == 2
    store = cache(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["000"]
    assert len(list(tmp_path.glob("*/*.tar"))) == 1, "what was not finished is gone"
    assert held(store) == [0, 1, 2, 3]


def test_a_full_disk_ends_keeping_and_nothing_else(tmp_path, capsys):
    """A limit on the size of files stands in for the disk."""
    fill(cache(tmp_path), 3).close()
    store = cache(tmp_path)
    fill(store, 1, start=3)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
    try:
        fill(store, 5, start=4)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert store.full
    assert held(store) == [0, 1, 2]
    assert "File too large" in capsys.readouterr().out
    assert len(list(tmp_path.glob("*/*.tar"))) == 1, "its bytes go back to the disk"


def test_the_last_of_the_disk_is_left_to_checkpoints(tmp_path, capsys):
    assert held(fill(cache(tmp_path, spare=10**18), 3)) == []
    assert "of the disk are for checkpoints" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RowcastError, match=r"expected to write states to .*set another data.cache"):
        cache(tmp_path / "file")
