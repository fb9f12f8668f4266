"""`python -m checkpoints` in processes of its own, turned to a loopback hub by their environment alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backbones.registry import load_backbone
from checkpoints import __main__ as commands
from conf.schema import PublishJob, VerifyJob
from tests.checkpoints.bundles import random_bank, save
from tests.checkpoints.hub_server import running
from tests.checkpoints.hub_state import TOKEN

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


class User:
    """Somebody at a terminal, in a folder of their own."""

    def __init__(self, folder, hub):
        self.folder, self.hub, self.said = folder, hub, ""

    def types(self, program, *words, **environment):
        settings = {"HF_ENDPOINT": self.hub.url, "HF_HOME": str(self.folder / "home"), "HF_TOKEN": TOKEN}
        settings |= {"HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "OMP_NUM_THREADS": "1"}
        line = [sys.executable, "-m", program, *words]
        whole = {**os.environ, "PYTHONPATH": str(ROOT), **settings, **environment}
        done = subprocess.run(
            line, cwd=self.folder, env=whole, capture_output=True, text=True, timeout=120, check=False
        )
        self.said += done.stdout + done.stderr
        return done


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    backbone = load_backbone("pocket", device="cpu")
    save(folder / "heads", random_bank(backbone), backbone)
    with running() as hub:
        yield User(folder, hub)


def test_heads_go_up_come_down_and_paint_without_a_network(user):
    (user.folder / "heads" / "notes.txt").write_text("mine")
    up = user.types("checkpoints", "publish", "bundle=heads", "repo=me/heads")
    assert up.returncode == 0, up.stderr
    assert "left out: notes.txt" in up.stdout
    url, loading = up.stdout.splitlines()[-2:]
    assert url == f"{user.hub.url}/me/heads"
    assert loading.startswith("load it as heads=me/heads, or for ever the same as heads=me/heads@")
    assert "notes.txt" not in user.hub.files("me/heads")

    proved = user.types("checkpoints", "verify", "bundle=me/heads", "+model=pocket", "device=cpu")
    assert proved.returncode == 0, proved.stdout + proved.stderr
    assert proved.stdout.endswith("4 ok, 0 FAILED, 1 untested\n")  # they were not measured

    asked = len(user.hub.requests)
    prompt = "prompt=a red sneaker on blue"
    painted = user.types("decoding", prompt, "heads=me/heads", "device=cpu", HF_HUB_OFFLINE="1")
    assert painted.returncode == 0, painted.stderr
    assert (user.folder / "outputs" / "painting.png").is_file()
    assert len(user.hub.requests) == asked

    for path in user.folder.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path
    assert TOKEN not in user.said
    assert all(TOKEN.encode() not in content for content in user.hub.files("me/heads").values())


@pytest.fixture
def at_home(user, monkeypatch):
    """In the user's folder, without a token and a network, in this process."""
    monkeypatch.chdir(user.folder)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return user


def test_a_dry_run_needs_no_token_and_no_hub(at_home, capsys):
    asked = len(at_home.hub.requests)
    choices = {"revision": None, "private": False, "base_model": None, "dry_run": True, "out": "up"}
    commands.publish(PublishJob(bundle="heads", repo="me/others", custom_generate=True, **choices))
    assert capsys.readouterr().out.endswith("up holds what would be published as me/others\n")
    written = {str(path.relative_to("up")) for path in Path("up").rglob("*") if path.is_file()}
    assert written == {"README.md", "config.json", "heads.safetensors", "custom_generate/generate.py"}
    assert len(at_home.hub.requests) == asked


def test_a_proof_that_fails_is_status_1(at_home, capsys):
    Path("heads/notes.txt").write_text("mine")
    with pytest.raises(SystemExit) as end:
        commands.verify(VerifyJob(bundle="heads"))
    assert end.value.code == 1
    assert (
        "FAILED   files: expected the files of a bundle and no others, found notes.txt"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["frob"], "expected one of publish, inspect, verify, found 'frob': --help shows them"),
        (["publish", "bundle=heads", "repo=../x"], "expected organisation/name for repo, found '../x'"),
        (["publish", "bundle=heads", "repo=a/b", f"token={TOKEN}"], "unknown option token"),
    ],
)
def test_mistakes_are_one_line_and_status_2(user, words, message):
    done = user.types("checkpoints", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"checkpoints: {message}")
    assert done.stderr.count("\n") == 1
    assert TOKEN not in done.stderr


def test_usage_is_shown_at_once(user):
    assert "python -m checkpoints publish" in user.types("checkpoints").stdout
    shown = user.types("checkpoints", "verify", "--help").stdout
    assert "model:  # none, or choose with model= anole" in shown
    heavy = "import sys, checkpoints.__main__ as m; m.main(['--help']); "
    heavy += "sys.exit(bool({'torch', 'huggingface_hub'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", heavy], cwd=ROOT, capture_output=True, check=False)
    assert ran.returncode == 0
