"""What a model hub holds: repositories with branches of commits, in memory, and a store of large files."""

from base64 import b64decode
from dataclasses import dataclass, field
from hashlib import sha1, sha256

import yaml

TOKEN = "hf_" + "loopbackSecret0123456789abcdef"
LARGE = (".safetensors", ".png")


@dataclass
class Commit:
    files: dict[str, bytes]
    message: str

    @property
    def oid(self) -> str:
        digest = sha1(self.message.encode())
        for name, content in sorted(self.files.items()):
            digest.update(name.encode() + sha256(content).digest())
        return digest.hexdigest()


@dataclass
class Repository:
    private: bool
    branches: dict[str, list[Commit]] = field(default_factory=dict)

    def find(self, revision: str) -> Commit | None:
        if revision in self.branches:
            return self.branches[revision][-1]
        return next((c for line in self.branches.values() for c in line if c.oid == revision), None)

    def commit(self, revision: str, lines: list[dict], store: dict[str, bytes]) -> str:
        """Carries out a commit as the client words it: a header, then operations."""
        files = dict(self.branches[revision][-1].files)
        for line in lines[1:]:
            key, value = line["key"], line["value"]
            if key == "file":
                files[value["path"]] = b64decode(value["content"])
            elif key == "lfsFile":
                files[value["path"]] = store[value["oid"]]
            else:
                del files[value["path"]]
        count = len(self.branches[revision])
        self.branches[revision].append(Commit(files, f"{lines[0]['value']['summary']} {count}"))
        return self.branches[revision][-1].oid


def etag(name: str, content: bytes) -> str:
    """As the hub names a content: git's for small files, SHA-256 for large ones."""
    if name.endswith(LARGE):
        return sha256(content).hexdigest()
    return sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Hub:
    """The hub; `cut` makes it die in the midst of a request."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.store: dict[str, bytes] = {}
        self.requests: list[tuple[str, str, str | None]] = []
        self.claimed: dict[str, int] = {}
        """Sizes that the hub states, against the truth."""
        self.cut: tuple[str, str] | None = None
        """Method, and a part of the path, of requests whose connection is closed unanswered."""
        self.lose_answers = False
        """Whether such a request is carried out first."""
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def seed(self, name: str, files: dict[str, bytes], branch: str = "main", private: bool = False) -> str:
        """Puts files into a repository, past the client; the commit."""
        repository = self.repositories.setdefault(name, Repository(private))
        line = repository.branches.setdefault(branch, [])
        line.append(Commit(dict(files), f"seed {len(line)}"))
        return line[-1].oid

    def files(self, name: str, branch: str = "main") -> dict[str, bytes]:
        return self.repositories[name].branches[branch][-1].files

    def commits(self, name: str, branch: str = "main") -> int:
        return len(self.repositories[name].branches[branch])

    def count(self, method: str, part: str) -> int:
        return sum(asked == method and part in path for asked, path, _ in self.requests)

    def info(self, name: str, repository: Repository, commit: Commit) -> dict:
        """What the hub says of a repository at a commit."""
        siblings = [
            {**self.entry(file, content), "rfilename": file} for file, content in commit.files.items()
        ]
        page = commit.files.get("README.md", b"").decode().split("---")
        card = yaml.safe_load(page[1]) if len(page) > 1 else {}
        facts = {"id": name, "sha": commit.oid, "private": repository.private, "cardData": card}
        return {**facts, "siblings": siblings}

    def entry(self, file: str, content: bytes) -> dict:
        """What the hub says of a file."""
        size, oid = self.claimed.get(file, len(content)), etag(file, content)
        entry = {"type": "file", "path": file, "size": size, "oid": oid, "blobId": oid}
        large = {"oid": oid, "sha256": oid, "size": size, "pointerSize": 130}
        return {**entry, "lfs": large} if file.endswith(LARGE) else entry
