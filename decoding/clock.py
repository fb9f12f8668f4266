"""Where the time of a generation goes, phase by phase."""

from time import perf_counter

import torch

PHASES: tuple[str, ...] = ("prefill", "draft", "forward", "verify", "commit", "other")


class Clock:
    """A lap clock: time since the last lap goes to the phase that just ended.

    On an accelerator the phases show when work was issued, unless `synchronize` waits for it at every lap;
    the total is always waited for.
    """

    def __init__(self, device: torch.device, synchronize: bool) -> None:
        self._device = device
        self._every_lap = synchronize
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self._wait()
        self._start = self._last = perf_counter()

    def lap(self, phase: str) -> None:
        """Ends `phase`."""
        if self._every_lap:
            self._wait()
        now = perf_counter()
        self._seconds[phase] += now - self._last
        self._last = now

    def stop(self) -> dict[str, float]:
        """Seconds by phase, and their `total`."""
        self._wait()
        self.lap("other")
        return {**self._seconds, "total": self._last - self._start}

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
