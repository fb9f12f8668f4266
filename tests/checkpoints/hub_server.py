"""A model hub on the loopback: as much of the HTTP interface as the real client asks.

Large files go the way of git LFS: negotiated, put to a store of their own, named by the commit, and fetched
from another host than the hub's.
"""

import json
import threading
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import yaml

from tests.checkpoints.hub_state import LARGE, TOKEN, Commit, Hub, Repository, etag


@contextmanager
def running():
    """A hub that answers as long as the context is open."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_) -> None: ...

    def do_GET(self) -> None:
        self._route()

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815

    def _route(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append((self.command, path, self.headers.get("authorization")))
        self.allowed = self.headers.get("authorization") == f"Bearer {TOKEN}"
        dies = self.hub.cut is not None and self.command == self.hub.cut[0] and self.hub.cut[1] in path
        if dies and not self.hub.lose_answers:
            self.rfile.read(int(self.headers.get("content-length", 0)) // 2)
            self.close_connection = True
            return
        self.body, self.muted = self._body(), dies
        words = path.strip("/").split("/")
        if words[0] in ("lfs", "cdn"):
            self._large(words)
        elif path == "/api/validate-yaml":
            yaml.safe_load(json.loads(self.body)["content"].split("---")[1])
            self._json({"errors": [], "warnings": []})
        elif path == "/api/repos/create":
            self._create(json.loads(self.body))
        elif path.endswith(".git/info/lfs/objects/batch"):
            self._negotiate(json.loads(self.body))
        elif words[:2] == ["api", "models"]:
            self._api("/".join(words[2:4]), words[4:])
        elif words[2:3] == ["resolve"]:
            self._resolve("/".join(words[:2]), words[3], "/".join(words[4:]))
        else:
            self._json({"error": "Not found"}, 404)

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _large(self, words: list[str]) -> None:
        if self.command == "PUT":
            assert sha256(self.body).hexdigest() == words[1]
            self.hub.store[words[1]] = self.body
            self._json({})
        else:
            self._answer(200, self.hub.store[words[1]], {"ETag": f'"{words[1]}"'})

    def _create(self, wanted: dict) -> None:
        name = f"{wanted['organization']}/{wanted['name']}"
        if not self.allowed:
            self._json({"error": "You must be logged in"}, 401)
        elif name in self.hub.repositories:
            self._json({"error": "You already created this model repo"}, 409)
        else:
            self.hub.seed(
                name, {".gitattributes": b"*.png lfs"}, private=wanted.get("visibility") == "private"
            )
            self._json({"url": f"{self.hub.url}/{name}"})

    def _negotiate(self, wanted: dict) -> None:
        objects = []
        for entry in wanted["objects"]:
            upload = {"upload": {"href": f"{self.hub.url}/lfs/{entry['oid']}"}}
            known = entry["oid"] in self.hub.store
            objects.append(entry if known else {**entry, "actions": upload})
        self._json({"transfer": "basic", "objects": objects})

    def _api(self, name: str, rest: list[str]) -> None:
        repository = self._repository(name)
        if repository is None:
            return
        action, revision = (rest[0], "/".join(rest[1:])) if rest else ("revision", "main")
        if action == "branch":
            repository.branches[revision] = list(repository.branches["main"])
            self._json({})
            return
        commit = self._commit(repository, revision)
        if commit is None:
            return
        if action in ("preupload", "commit") and not self.allowed:
            self._json({"error": "Forbidden: pass a token with write access"}, 403)
        elif action == "preupload":
            self._preupload(commit)
        elif action == "commit":
            self._take(name, repository, commit, revision)
        elif action == "tree":
            self._json([self.hub.entry(name, content) for name, content in commit.files.items()])
        else:
            self._json(self.hub.info(name, repository, commit))

    def _preupload(self, commit: Commit) -> None:
        files = []
        for file in json.loads(self.body)["files"]:
            name = file["path"]
            mode = "lfs" if name.endswith(LARGE) else "regular"
            known = etag(name, commit.files[name]) if name in commit.files else None
            files.append({"path": name, "uploadMode": mode, "shouldIgnore": False, "oid": known})
        self._json({"files": files})

    def _take(self, name: str, repository: Repository, parent: Commit, revision: str) -> None:
        lines = [json.loads(line) for line in self.body.splitlines()]
        if lines[0]["value"].get("parentCommit", parent.oid) != parent.oid:
            self._json({"error": "A commit has happened since. Please refresh and try again."}, 412)
            return
        oid = repository.commit(revision, lines, self.hub.store)
        self._json({"commitUrl": f"{self.hub.url}/{name}/commit/{oid}", "commitOid": oid})

    def _resolve(self, name: str, revision: str, file: str) -> None:
        repository = self._repository(name)
        commit = None if repository is None else self._commit(repository, revision)
        if commit is None:
            return
        if file not in commit.files:
            self._json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
            return
        content = commit.files[file]
        headers = {"X-Repo-Commit": commit.oid, "ETag": f'"{etag(file, content)}"'}
        if not file.endswith(LARGE):
            self._answer(200, content, headers)
            return
        self.hub.store[etag(file, content)] = content
        elsewhere = f"http://localhost:{self.hub.port}/cdn/{etag(file, content)}"
        linked = {"X-Linked-Etag": headers["ETag"], "X-Linked-Size": str(len(content))}
        self._answer(302, b"", {**headers, **linked, "Location": elsewhere})

    def _repository(self, name: str) -> Repository | None:
        found = self.hub.repositories.get(name)
        if found is not None and (self.allowed or not found.private):
            return found
        status = 404 if self.allowed else 401
        self._json({"error": "Repository not found"}, status, {"X-Error-Code": "RepoNotFound"})
        return None

    def _commit(self, repository: Repository, revision: str) -> Commit | None:
        commit = repository.find(revision)
        if commit is None:
            error = {"error": f"Invalid rev id: {revision}"}
            self._json(error, 404, {"X-Error-Code": "RevisionNotFound"})
        return commit

    def _json(self, value: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        if status >= 400:
            headers = {**(headers or {}), "X-Error-Message": str(value["error"])}
        self._answer(
            status, json.dumps(value).encode(), {**(headers or {}), "Content-Type": "application/json"}
        )

    def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        if self.muted:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
