"""Several processes make one set: no image twice, none left out, the same bytes as by one of them."""

import subprocess
import sys
import threading
import time
from pathlib import Path
from uuid import uuid4

import pytest

from backbones.errors import RowcastError
from data.contract import read_contract, write_contract
from data.storage import open_storage
from tests.data.killed import make
from tests.data.sets import entries, files
from tests.data.test_rollout import make as make_set

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("together") / "whole"
    make(folder, images=24)
    return folder


@pytest.mark.integration
def test_two_processes_share_the_work(whole, tmp_path):
    """The second one joins as it might on another machine; both see the whole set in the end."""
    folder = tmp_path / "set"
    words = [sys.executable, "-m", "tests.data.killed", f"file://{folder}", "24", "0.2"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        while not entries(folder) and process.poll() is None:
            time.sleep(0.02)
        sampled = make(folder, images=24)
        output = process.communicate()[0]
    assert process.returncode == 0
    assert 0 < sampled < 24
    assert output == f"sampled {24 - sampled} images\n"
    assert files(folder) == files(whole)


@pytest.mark.unit
def test_two_nodes_share_an_object_store(whole):
    url = f"memory://{uuid4().hex}/set"
    nodes = [threading.Thread(target=make, args=(url, 24)) for _ in range(2)]
    for node in nodes:
        node.start()
    for node in nodes:
        node.join()
    assert files(url) == files(whole)


@pytest.mark.unit
def test_a_rank_begins_with_its_own_shards(whole, tmp_path, monkeypatch, capsys):
    """And goes on with those of a rank that never came; only the first rank shows a bar."""
    for name, value in {"TORCHELASTIC_RUN_ID": "run", "RANK": "1", "WORLD_SIZE": "3"}.items():
        monkeypatch.setenv(name, value)
    order = []
    folder = tmp_path / "set"
    storage = open_storage(folder)
    write, place = type(storage).write, str(folder)
    monkeypatch.setattr(
        type(storage), "write", lambda self, name, content: (order.append(name), write(self, name, content))
    )
    make(folder, images=24)
    assert files(place) == files(whole)
    shards = [int(name[9:17]) // 3 for name in order if name.endswith(".tar")]
    assert shards == [1, 4, 7, 2, 5, 0, 3, 6]
    assert capsys.readouterr().err == ""


@pytest.mark.unit
def test_other_numbers_of_images_at_a_time_agree(whole, tmp_path):
    """One process was asked for 4 images and one for 24; a shard of each begins at image 3."""
    make(tmp_path / "small", images=4)
    folder = tmp_path / "set"
    make(folder, images=24)
    for name, content in files(tmp_path / "small").items():
        (folder / name).write_bytes(content)
    assert [(entry.first, entry.last) for entry in entries(folder)[:3]] == [(0, 3), (3, 6), (3, 4)]
    made = make_set(folder, images=24)
    made.verify()
    assert [image.tokens.tolist() for image in made] == [
        image.tokens.tolist() for image in make_set(whole, images=24)
    ]


@pytest.mark.unit
def test_a_set_of_other_options_begun_at_the_same_moment_is_not_mixed(tmp_path, monkeypatch):
    """Its contract replaces ours while we sample our first shard."""
    storage = open_storage(tmp_path)
    other = read_contract(open_storage(make_set(tmp_path / "other", seed=2).folder))
    from data.sampler import Sampler

    sample = Sampler.__call__

    def overtaken(self, images, skip=()):
        write_contract(storage, other)
        return sample(self, images, skip)

    monkeypatch.setattr(Sampler, "__call__", overtaken)
    with pytest.raises(RowcastError, match=r"expected rollouts with rollouts\.seed"):
        make_set(tmp_path)
    assert not entries(tmp_path)
    assert not list(tmp_path.glob("*.claim"))
