"""Prompt files come from a pinned address and are checked before they are kept; the server is our own."""

import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from backbones.errors import RowcastError
from eval.prompt_sets.fetch import find
from eval.prompt_sets.manifest import SETS, Published

pytestmark = pytest.mark.unit

CONTENT = b'{"tag": "counting", "include": [], "prompt": "two clocks"}\n'


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.asked = []
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()


def entry(server, path="/set.jsonl", digest=None):
    digest = digest or hashlib.sha256(CONTENT).hexdigest()
    address = f"http://127.0.0.1:{server.server_port}{path}"
    return replace(SETS["geneval"], published=Published(address=address, sha256=digest))


def test_fetched_once_and_then_kept(server, tmp_path):
    for _ in range(2):
        path = find(entry(server), None, tmp_path / "kept", fetch=True)
        assert path.read_bytes() == CONTENT
    assert server.asked == ["/set.jsonl"]
    assert find(entry(server), None, tmp_path / "kept", fetch=False) == path


def test_without_leave_the_network_is_not_asked(server, tmp_path):
    with pytest.raises(RowcastError, match=r"set sets\.fetch=true to download it, or sets\.geneval\.path="):
        find(entry(server), None, tmp_path, fetch=False)
    assert server.asked == []


@pytest.mark.parametrize(
    ("path", "digest", "message"),
    [
        ("/set.jsonl", "0" * 64, "expected sha256 0000000000000000 at .*nothing was kept"),
        ("/missing", None, "expected a file at .*: Not Found"),
    ],
)
def test_other_bytes_are_not_kept(server, tmp_path, path, digest, message):
    with pytest.raises(RowcastError, match=message):
        find(entry(server, path, digest), None, tmp_path / "kept", fetch=True)
    assert not (tmp_path / "kept").exists() or not list((tmp_path / "kept").iterdir())


def test_a_kept_file_that_changed_is_refused(server, tmp_path):
    path = find(entry(server), None, tmp_path, fetch=True)
    path.write_bytes(b"spoilt")
    with pytest.raises(RowcastError, match=r"expected sha256 .* delete the file"):
        find(entry(server), None, tmp_path, fetch=True)


def test_nobody_there_is_one_line(tmp_path):
    gone = replace(SETS["geneval"], published=Published(address="http://127.0.0.1:1/x", sha256="0" * 64))
    with pytest.raises(RowcastError, match=r"expected a file at .*refused"):
        find(gone, None, tmp_path, fetch=True)


def test_a_set_without_a_known_checksum_needs_a_path(tmp_path):
    with pytest.raises(RowcastError, match=r"expected sets\.coco\.path=<captions_val2017\.json>"):
        find(SETS["coco"], None, tmp_path, fetch=True)
    assert find(SETS["coco"], "mine.json", tmp_path, fetch=False).name == "mine.json"
