"""What the figures depend on besides the method: machine, versions, threads, code."""

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import torch

from backbones.contract import Backbone


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The machine and software of one benchmark; part of the contract of its log."""

    device: str
    cpus: int
    """Processors this process may use."""
    threads: int
    """Threads of one torch operation."""
    omp_wait_policy: str | None
    dtype: str
    tf32: bool
    python: str
    torch: str
    transformers: str
    system: str
    commit: str | None
    """Of this code; none outside a git checkout."""


def environment(backbone: Backbone) -> Environment:
    """Describes this process as it would run `backbone`."""
    import transformers

    return Environment(
        device=_device_name(backbone.device),
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        omp_wait_policy=os.environ.get("OMP_WAIT_POLICY"),
        dtype=str(backbone.dtype).removeprefix("torch."),
        tf32=bool(torch.backends.cuda.matmul.allow_tf32),
        python=platform.python_version(),
        torch=torch.__version__,
        transformers=transformers.__version__,
        system=f"{platform.system()} {platform.machine()}",
        commit=_commit(),
    )


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str | None:
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():
        return None
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], cwd=root, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()
