"""Rowcast's commands as a user starts them: real processes, one thread each."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_module(program, *words, cwd=ROOT, timeout=120):
    """`python -m program words`, whatever its exit status."""
    return subprocess.run(
        [sys.executable, "-m", program, *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
