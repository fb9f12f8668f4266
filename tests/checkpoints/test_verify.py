"""What `verify` proves line by line, and what `inspect` says."""

import json
import shutil
from pathlib import Path

import pytest

from backbones.report import Report
from checkpoints import verify as module
from checkpoints.custom import CODE_FILE
from checkpoints.describe import describe
from checkpoints.verify import verify
from tests.backbones.tiny import tiny_backbone
from tests.checkpoints.bundles import random_bank, random_heads, save

pytestmark = pytest.mark.unit

MODEL = {"name": "tiny"}


@pytest.fixture
def bundle(tmp_path):
    save(tmp_path / "heads", random_bank(tiny_backbone()), tiny_backbone(), training={"steps": 4})
    return tmp_path / "heads"


@pytest.fixture
def load(monkeypatch):
    """Decides which backbone `+model=...` loads."""
    return lambda backbone: monkeypatch.setattr(module, "load_backbone", lambda **options: backbone)


def edit(folder, **changes):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for name, value in changes.items():
        group, _, key = name.partition("__")
        config[group][key] = value
    path.write_text(json.dumps(config))


def verdicts(folder, model=None):
    report = Report()
    verify(report, folder, model)
    return {proof.name: proof.verdict for proof in report.proofs}


def test_a_whole_bundle_passes(bundle, load):
    found = {"config": "ok", "weights": "ok", "results": "untested", "files": "ok", "backbone": "untested"}
    assert verdicts(bundle) == found
    load(tiny_backbone())
    assert verdicts(bundle, MODEL) == {**found, "backbone": "ok"}


def test_the_line_names_what_is_wrong(bundle, load, capsys):
    path = bundle / "heads.safetensors"
    whole = path.read_bytes()
    for content, message in [
        (whole[:-1] + bytes([whole[-1] ^ 1]), "found altered bytes"),
        (whole[:1000], "found Error while deserializing header"),
        ((10 << 30).to_bytes(8, "little") + whole[8:], "header too large"),
    ]:
        path.write_bytes(content)
        assert verdicts(bundle)["weights"] == "FAILED"
        assert message in capsys.readouterr().out
    path.write_bytes(whole)
    (bundle / "results.json").write_text('{"weights_sha256": "0"}')
    (bundle / "run.py").write_text("boom")
    (bundle / "checkpoint.pt").write_text("boom")
    edit(bundle, backbone__source="them/base@v1")
    load(tiny_backbone(cols=5))
    failed = [name for name, verdict in verdicts(bundle, MODEL).items() if verdict == "FAILED"]
    assert failed == ["results", "files", "backbone"]
    shown = capsys.readouterr().out
    assert "found checkpoint.pt, run.py beside them" in shown
    assert "found cols 5, fingerprint" in shown


def test_code_beside_the_heads_is_rowcasts_own_or_fails(bundle, capsys):
    code = bundle / CODE_FILE
    code.parent.mkdir()
    shutil.copy(Path(module.__file__).parent / CODE_FILE, code)
    assert verdicts(bundle) | {"code": "ok", "files": "ok"} == verdicts(bundle)
    assert f"{CODE_FILE} for plain transformers, as it comes with this Rowcast" in describe(bundle, "x")
    code.write_text(code.read_text() + "\n")
    (code.parent / "requirements.txt").write_text("evil")
    assert verdicts(bundle) | {"code": "FAILED", "files": "FAILED"} == verdicts(bundle)
    shown = capsys.readouterr().out
    assert "byte for byte, found another" in shown
    assert "never run it" in shown
    assert "found custom_generate/requirements.txt beside them" in shown
    assert "not Rowcast's own: never run it" in describe(bundle, "x")
    code.unlink()
    code.mkdir()
    assert verdicts(bundle)["code"] == "FAILED"


def test_without_a_config_nothing_else_can_be_proved(bundle, capsys):
    (bundle / "config.json").write_text("{")
    assert verdicts(bundle) == {"config": "FAILED"}
    assert "found text that is not JSON" in capsys.readouterr().out


def test_weights_left_waiting_by_a_kill_are_found(bundle):
    config = json.loads((bundle / "config.json").read_text())
    waiting = bundle / f"heads.safetensors.new-{config['weights_sha256'][:16]}"
    (bundle / "heads.safetensors").rename(waiting)
    shutil.copy(bundle / "README.md", bundle / "heads.safetensors")
    assert verdicts(bundle)["weights"] == "ok"
    assert verdicts(bundle)["files"] == "ok"


def test_an_inspection_says_what_it_is_without_its_weights(bundle):
    edit(bundle, training__note="a\x1b[2Jb\nc")
    (bundle / "heads.safetensors").unlink()
    text = describe(bundle, "me/heads")
    assert text.startswith("ssd heads for tiny: me/heads\n")
    for line in [
        "  drafts      h+1, h+2, h+3, v+1, v+2",
        "  backbone    tiny, 3x4 tokens of 11 codes, 32 wide, float32, pre-norm states",
        "  its weights local, or with Rowcast",
        "  sampling    guidance 2, temperature 1, top_k none, top_p none",
        "  training    steps 4, note a?[2Jb?c",
    ]:
        assert line in text.splitlines()
    assert "not measured" in text
    assert all(letter.isprintable() or letter == "\n" for letter in text)


@pytest.mark.parametrize("kind", ["mtp", "eagle"])
def test_every_kind_is_described(tmp_path, kind):
    save(tmp_path, random_heads(tiny_backbone(), kind), tiny_backbone())
    assert describe(tmp_path, "x").startswith(f"{kind} heads for tiny: x\n  drafts      t+1")
