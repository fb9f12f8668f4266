"""What the latency sweep measures, in typed form: a part of `results.json`."""

from dataclasses import dataclass

from eval.statistics import Spread


@dataclass(frozen=True, kw_only=True)
class LatencyPlan:
    """How much the sweep paints."""

    batches: list[int]
    """Images painted together; none: no sweep."""
    rows: int = 3
    """Rows of the shorter of the two windows; the longer one has two more."""
    repeats: int = 3
    """Pairs of windows that are timed for a cell, at most."""
    seconds: float = 10.0
    """A cell is timed again only while it has taken less than this; once it is timed anyway."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One decoder at one batch size; an image is extrapolated from its windows."""

    decoder: str
    batch: int
    """Images painted together."""
    forwards: float
    """Trunk calls an image, prefill included."""
    latency: Spread
    """Seconds from prompts to tokens, the whole batch; spread over pairs of windows."""
    phases: dict[str, float]
    """Shares of the time, by phase."""
    bytes_read: float
    """Weights and cached keys and values that a forward reads, mean over the windows."""
    peak_bytes: int | None
    """Most memory allocated on the device, weights included; none on a CPU, where it is not counted."""

    @property
    def seconds(self) -> float:
        """The median of `latency`."""
        return self.latency.median


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A cell that could not be measured, and why."""

    decoder: str
    batch: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Latency:
    """The sweep over batch sizes."""

    plan: LatencyPlan
    first_row: int
    """Topmost row of the windows; the rows above it are in the cache."""
    windows: tuple[int, int]
    """Rows of the two windows."""
    copy_rate: float
    """Bytes a second that a copy on the device reads and writes: the bandwidth of the floor."""
    copied_bytes: int
    """Size of the block that was copied to measure it."""
    weight_bytes: int
    """Frozen weights that every forward reads."""
    fixed: list[str]
    """Decoders whose forwards do not depend on what is drawn."""
    cells: list[Cell]
    skipped: list[Skipped]

    def cell(self, decoder: str, batch: int) -> Cell | None:
        """The figures of a decoder at a batch size, if they were measured."""
        found = (cell for cell in self.cells if (cell.decoder, cell.batch) == (decoder, batch))
        return next(found, None)

    def floor(self, cell: Cell) -> float:
        """Seconds below which a forward cannot come: what it reads at the rate of a copy."""
        return cell.bytes_read / self.copy_rate


MEANING = {
    "sweep": "seconds extrapolated from windows of rows in the middle of the image: T(s) + (R - s)/(l - s) * "
    "(T(l) - T(s)) and the prefill, with T(n) the seconds of n rows below random ones, s and l the rows of "
    "the two windows, R those of the image",
    "images a second": "batch / seconds from prompts to tokens, pixels not included",
    "floor": "weights and cached keys and values that a forward reads, mean over the windows, divided by the "
    "rate of a copy on the same device (bytes read and written a second, the best of several)",
    "of floor": "floor / (seconds / forwards): 100 % if nothing took time but reading what the trunk needs; "
    "drafting, sampling and launching kernels are in the seconds. Above 100 % the weights fit into a cache "
    "that is faster than the memory",
}
