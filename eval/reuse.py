"""The baseline's images, kept for later benchmarks: a lossless decoder of the same law is painted once.

Stale reuse is impossible by name: the pool's file is named by a hash over everything that the images depend
on, the source code of the generator and of the decoding loop among it. Latencies are never reused.
"""

import fcntl
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from backbones.contract import Backbone, Sampling
from eval.columns import CONDITIONAL, NLL
from eval.environment import Environment
from eval.samples import Key, Sample, SampleLog, Scores, unwritable

PAINTERS = ("backbones", "decoding", "eval/likelihood.py")
"""The code that decides what the baseline paints and how likely it is."""


class BaselinePool:
    """Images of plain autoregression that several benchmarks share; any number of processes may use it."""

    def __init__(self, folder: Path, contract: Mapping[str, object], baseline: str) -> None:
        self._folder, self._contract, self._baseline = folder, contract, baseline

    def borrow(self, keys: Sequence[Key], session: int) -> tuple[list[Sample], dict[Key, Scores]]:
        """Those of the images that are there, as the baseline's own, and their scores."""
        wanted = {(key[1], key[2], key[3]): key for key in keys}
        with self._opened() as log:
            found = {
                wanted[key[1:]]: replace(image, decoder=self._baseline, session=session)
                for key, image in log.images.items()
                if key[1:] in wanted
            }
            scores = {wanted[key[1:]]: value for key, value in log.scores.items() if key[1:] in wanted}
        return list(found.values()), scores

    def lend(self, images: Sequence[Sample], scores: Mapping[Key, Scores]) -> None:
        """Adds the images that are not there yet."""
        with self._opened() as log:
            new = [
                replace(image, decoder="ar", latency=None)
                for image in images
                if ("ar", *image.key[1:]) not in log.images
            ]
            if new:
                log.add(new)
                log.score(
                    {
                        image.key: {
                            name: scores[self._baseline, *image.key[1:]][name] for name in (NLL, CONDITIONAL)
                        }
                        for image in new
                    }
                )

    @contextmanager
    def _opened(self) -> Iterator[SampleLog]:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / ".lock").open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                log = SampleLog(self._folder, self._contract)
                try:
                    yield log
                finally:
                    log.close()
        except OSError as error:
            raise unwritable(self._folder, error) from None


def baseline_contract(
    backbone: Backbone,
    options: Mapping[str, object],
    sampling: Sampling,
    seed: int,
    machine: Environment,
) -> dict[str, object]:
    """Everything that the baseline's images depend on."""
    return {
        "fingerprint": backbone.fingerprint,
        "grid": asdict(backbone.grid),
        "options": dict(options),
        "sampling": asdict(sampling),
        "seed": seed,
        "device": machine.device,
        "dtype": machine.dtype,
        "tf32": machine.tf32,
        "torch": machine.torch,
        "transformers": machine.transformers,
        "code": code_hash(),
    }


def code_hash(root: Path | None = None) -> str:
    """Hash over the source files of `PAINTERS`."""
    root = root or Path(__file__).parents[1]
    files = [
        path
        for name in PAINTERS
        for path in ([root / name] if name.endswith(".py") else _sources(root / name))
    ]
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(root)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _sources(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))
