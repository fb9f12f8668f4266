"""Where the time of training goes, phase by phase, without making the device wait at every step.

A lap clock: the time since the last lap goes to the phase that just ended. On a GPU a lap is an event in its
stream, so a phase is what the device spent, idle time included: `data` is what it waited for the loader, not
what the loader worked while the device was busy with something else.
"""

from time import perf_counter
from typing import Any

import torch

PHASES: tuple[str, ...] = ("data", "backbone", "heads", "optimiser", "validation", "other")
"""`data`: waiting for the loader. `backbone`: the harvest, with siblings. `heads`: forward and backward, the
exchange of gradients between processes within. `optimiser`: clipping and the step. `other`: checkpoints,
logging, Lightning."""


class StepClock:
    """Seconds by phase, by the host's clock or by a GPU's."""

    def __init__(self, device: torch.device | None = None) -> None:
        self.start(device or torch.device("cpu"))

    def start(self, device: torch.device) -> None:
        """Begins anew, on the clock of `device`."""
        self._device = device
        self._marks: list[tuple[str, Any]] = [("", self._mark())]

    def lap(self, phase: str) -> None:
        """Ends `phase`."""
        self._marks.append((phase, self._mark()))

    def read(self) -> dict[str, float]:
        """Seconds by phase since the last reading; waits for a GPU, so not for every step."""
        if self._device.type == "cuda":
            self._marks[-1][1].synchronize()
        seconds = dict.fromkeys(PHASES, 0.0)
        for (_, begin), (phase, end) in zip(self._marks, self._marks[1:], strict=False):
            seconds[phase] += end - begin if isinstance(end, float) else begin.elapsed_time(end) / 1000
        del self._marks[:-1]
        return seconds

    def _mark(self) -> Any:
        if self._device.type != "cuda":
            return perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event
