"""Every tensor signature is checked at run time in tests (jaxtyping with beartype)."""

import os

os.environ.setdefault("WANDB_MODE", "disabled")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
if "PYTEST_XDIST_WORKER" in os.environ:  # workers that share the cores would wait for each other's threads
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from jaxtyping import install_import_hook

install_import_hook(
    ["backbones", "heads", "decoding", "data", "checkpoints", "train", "eval"], "beartype.beartype"
)
