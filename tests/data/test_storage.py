"""Storage: a folder and an object store hold the same set; a web server is enough to read one."""

import http.server
import threading
from functools import partial
from pathlib import Path
from uuid import uuid4

import fsspec
import pytest

from backbones.errors import RowcastError
from data.bucket import Bucket
from data.rollout import make_rollouts
from data.rollouts import RolloutSet
from data.storage import Folder, open_storage
from tests.backbones.tiny import tiny_backbone
from tests.data.damage import flip
from tests.data.sets import entries, files, rollout, write_set

pytestmark = pytest.mark.unit


@pytest.fixture(params=["folder", "file", "memory"])
def place(request, tmp_path):
    return {
        "folder": tmp_path / "set",
        "file": f"file://{tmp_path}/set",
        "memory": f"memory://{uuid4().hex}/set",
    }[request.param]


def test_every_place_keeps_the_same_promises(place):
    storage = open_storage(place)
    assert storage.sizes() == {}
    with pytest.raises(FileNotFoundError):
        storage.read("a")
    storage.write("a", b"first")
    storage.write("a", b"second")
    assert storage.create("b", b"0123456789")
    assert not storage.create("b", b"other")
    assert storage.sizes() == {"a": 6, "b": 10}
    assert storage.read("a") == b"second"
    assert storage.read("b", 3, 4) == b"3456"
    assert storage.read("b", 8, 4) == b"89"
    assert storage.read_all(["b", "gone", "a"]) == {"b": b"0123456789", "a": b"second"}
    assert storage.read_all([]) == {}
    storage.move("b", "aside/b")
    storage.remove("a")
    storage.remove("a")
    assert storage.sizes() == {}, "files alone, and of this place alone"
    assert storage.read_all(["aside/b"]) == {"aside/b": b"0123456789"}


def test_an_url_of_files_is_a_folder(tmp_path):
    assert isinstance(open_storage(f"file://{tmp_path}"), Folder)
    assert isinstance(open_storage("memory://x"), Bucket)
    assert open_storage("memory://x/").place == "memory://x"


@pytest.mark.parametrize(("url", "found"), [("no-such://x/y", "no-such"), ("s3://x/y", "s3fs")])
def test_an_url_that_cannot_be_opened_names_what_is_missing(url, found):
    if found == "s3fs":
        try:
            import s3fs  # noqa: F401  # pyright: ignore[reportMissingImports]
        except ImportError:
            pass
        else:
            pytest.skip("s3fs is installed")
    with pytest.raises(RowcastError, match=rf"expected rollouts.folder to be .* found {url} \(.*{found}"):
        RolloutSet(url)


def make(place, images=5, **options):
    return make_rollouts(
        tiny_backbone(2, 2),
        ["a bag", "two words"],
        place,
        **{"images": images, "batch": 2, "shard_images": 3, "seed": 1} | options,
    )


def test_a_set_behind_an_url_is_the_set_of_a_folder(tmp_path):
    url = f"memory://{uuid4().hex}/set"
    make(url, images=2)
    grown = make(url)
    grown.verify()
    make(tmp_path, images=2)
    assert files(url) == files(make(tmp_path).folder)
    assert len(RolloutSet(url, 3)) == 3
    with pytest.raises(RowcastError, match=rf"expected 6 rollouts in {url}, found 5"):
        RolloutSet(url, 6)
    with pytest.raises(RowcastError, match=rf"expected rollouts with rollouts.seed .* in {url}/contract"):
        make(url, seed=2)


def test_damage_behind_an_url_is_named_and_mended():
    url = f"memory://{uuid4().hex}/set"
    rollouts, before = make(url, on_damage="quarantine"), files(url)
    entry = entries(url)[0]
    open_storage(url).write(entry.shard, flip(before[entry.shard], entry))
    with pytest.raises(RowcastError, match=rf"{url}/{entry.shard} as it was .* found it with changed bytes"):
        RolloutSet(url)[1]
    assert rollouts[1].key == "00000001"
    assert files(url) == before
    assert list(open_storage(f"{url}/quarantine").sizes()) == [entry.shard]


def test_what_a_service_refuses_is_one_sentence(monkeypatch):
    """Services raise classes of their own."""

    class NoCredentialsError(Exception):
        pass

    def refuse(*_, **__):
        raise NoCredentialsError("Unable to locate credentials")

    monkeypatch.setattr(fsspec.get_filesystem_class("memory"), "pipe_file", refuse)
    with pytest.raises(
        RowcastError, match=r"memory://.*, found: NoCredentialsError: Unable to locate credentials"
    ):
        make("memory://refused/set")


def test_a_plain_web_server_is_enough_to_read_a_set(tmp_path):
    folder = write_set(tmp_path / "set")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        rollouts = RolloutSet(f"http://127.0.0.1:{server.server_port}/set")
        rollouts.verify()
        assert [found.tokens.tolist() for found in rollouts] == [
            rollout(i).tokens.tolist() for i in range(12)
        ]
        path = Path(folder) / entries(folder)[2].shard
        path.write_bytes(path.read_bytes()[:700])
        with pytest.raises(RowcastError, match=r"http://.*\.tar as it was written, found it cut inside data"):
            rollouts.verify()
    finally:
        server.shutdown()
        server.server_close()
