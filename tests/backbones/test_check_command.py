"""`python -m backbones check` in processes of its own: lines, table, picture, exit status."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.backbones.checkpoints.families import SUBJECTS
from tests.process import run_module

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def command(*words, cwd):
    return run_module("backbones", *words, cwd=cwd)


def test_the_pocket_model_passes_and_paints(tmp_path):
    done = command("check", "out=made/check.png", "prompt=a red sneaker on blue", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (0, 2), done.stderr
    assert done.stderr.startswith("128 tokens by the library's own generate() first")
    assert "painting 256 tokens, about" in done.stderr
    lines, _, table = done.stdout.partition("\n\n")
    assert all(line.startswith("ok ") for line in lines.splitlines())
    assert table.startswith("proof ")
    assert done.stdout.endswith(", 0 FAILED, 0 untested\n")
    assert Image.open(tmp_path / "made" / "check.png").size == (256, 256)


def test_a_failed_proof_is_status_1(tmp_path):
    options = SUBJECTS["janus"].write(tmp_path / "janus")
    done = command(
        "check", "+model=janus", f"path={options['path']}", "device=cpu", "paint=false", cwd=tmp_path
    )
    assert done.returncode == 1, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("FAILED   coherent: expected ")]
    assert "1 FAILED" in done.stdout.splitlines()[-1]
    assert not (tmp_path / "outputs").exists()


def test_mistakes_are_one_line_and_status_2(tmp_path):
    for words, message in {
        ("chekc",): "backbones: expected the command check, found 'chekc': --help shows it",
        ("check", "pain=false"): "backbones: unknown option pain: did you mean paint?",
        (
            "check",
            "+model=anole",
            "path=nowhere",
        ): "backbones: expected a folder or a hub id, found 'nowhere'",
    }.items():
        done = command(*words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(message)
        assert done.stderr.count("\n") == 1


def test_usage_is_shown_at_once(tmp_path):
    plain, help_ = command(cwd=tmp_path), command("--help", cwd=tmp_path)
    assert plain.returncode == help_.returncode == 0
    assert "python -m backbones check" in plain.stdout
    assert "out: outputs/${model.name}/check.png" in help_.stdout
    heavy = "import sys, backbones.__main__ as m; m.main(['--help']); "
    heavy += "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", heavy], cwd=ROOT, capture_output=True, check=False).returncode
        == 0
    )


def test_no_network_is_said_at_once():
    """In a process of its own: the library reads HF_HUB_OFFLINE once."""
    program = (
        "import time; from backbones.source import fetch_file; from backbones.errors import RowcastError\n"
        "from huggingface_hub import HfApi; start = time.perf_counter()\n"
        "try: fetch_file('org/repo/file.pt', None, 'model.path')\n"
        "except RowcastError as error: print(error, file=__import__('sys').stderr)\n"
        "assert time.perf_counter() - start < 10"
    )
    closed = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **closed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"expected a file, .*found 'org/repo/file\.pt' \(.*HF_HUB_OFFLINE\n", done.stderr)
