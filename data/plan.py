"""Which prompt, and which sample of it, image i of a set shows: fixed by the seed and the set of prompts."""

import hashlib
from collections.abc import Sequence


class Plan:
    """Image i takes each prompt once, in a pseudo-random order, before any prompt comes again.

    Cycle c (images `c*n .. (c+1)*n-1` of n different prompts) is ordered by the hash of (seed, c, prompt),
    so the plan is the same on every machine, for any order of the list, and for any number of images.
    """

    def __init__(self, prompts: Sequence[str], seed: int) -> None:
        self._prompts = sorted(set(prompts))
        self._seed = seed
        self._cycles: dict[int, list[str]] = {}

    def __getitem__(self, image: int) -> tuple[str, int]:
        """(prompt, sample index) of an image."""
        cycle, place = divmod(image, len(self._prompts))
        if cycle not in self._cycles:
            self._cycles[cycle] = sorted(self._prompts, key=lambda prompt: self._rank(cycle, prompt))
        return self._cycles[cycle][place], cycle

    def _rank(self, cycle: int, prompt: str) -> bytes:
        return hashlib.sha256(f"{self._seed}\n{cycle}\n{prompt}".encode()).digest()
