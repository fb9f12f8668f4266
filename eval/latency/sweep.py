"""The latency sweep: every decoder at every batch size, on windows of rows in the middle of an image.

Whole images of the largest generators take minutes by plain autoregression; two windows of different height
give what a row costs, and so an image. Decoders take turns, so that drift hits all alike.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from tqdm import tqdm

from backbones.contract import Backbone, Grid, Sampling
from decoding.clock import PHASES
from decoding.engine import generate
from decoding.methods.method import Method
from decoding.noise import Noise
from eval.latency.bandwidth import copy_rate, synchronise, weight_bytes
from eval.latency.figures import Cell, Latency, LatencyPlan, Skipped
from eval.latency.window import Window
from eval.statistics import spread

TALLER = 2
"""Rows that the longer window has more."""
PREFILLS = 3

Keep = Callable[[Sequence[Cell], Sequence[Skipped]], None]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the windows lie, and how an image follows from them."""

    first: int
    short: int
    long: int
    grid: Grid

    def image(self, short: float, long: float) -> float:
        """What an image takes, of which the two windows take so much: all further rows cost alike."""
        return short + (self.grid.rows - self.short) * (long - short) / (self.long - self.short)


def place_windows(grid: Grid, rows: int) -> Place:
    """Windows whose further rows lie half-way down, where the cache is as long as on average."""
    short = max(1, min(rows, grid.rows - 1))
    long = min(short + TALLER, grid.rows)
    return Place(first=max(0, (grid.rows - short - long) // 2), short=short, long=long, grid=grid)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is measured."""

    backbone: Backbone
    decoders: Mapping[str, Method]
    sampling: Sampling
    prompts: Sequence[str]
    """Texts, taken in turn where a batch has more images."""
    seed: int


def sweep(
    subject: Subject,
    plan: LatencyPlan,
    *,
    fixed: Sequence[str],
    known: tuple[Sequence[Cell], Sequence[Skipped]] = ((), ()),
    keep: Keep = lambda cells, skipped: None,
) -> Latency:
    """Measures every cell that is not known.

    Args:
        subject: the model and the decoders.
        plan: how much to paint.
        fixed: decoders whose forwards do not depend on what is drawn.
        known: cells and skipped ones of an earlier start.
        keep: called with all cells so far after every batch size.

    Raises:
        RowcastError: if a prompt or a setting is refused.
    """
    place = place_windows(subject.backbone.grid, plan.rows)
    cells, skipped = list(known[0]), list(known[1])
    done = {(cell.decoder, cell.batch) for cell in [*cells, *skipped]}
    todo = [batch for batch in plan.batches if any((name, batch) not in done for name in subject.decoders)]
    with tqdm(
        total=len(todo) * len(subject.decoders), desc="latency", unit="cell", dynamic_ncols=True
    ) as bar:
        for batch in todo:
            measured, left = _batch(subject, plan, place, batch, bar)
            cells, skipped = [*cells, *measured], [*skipped, *left]
            keep(cells, skipped)
    rate, copied = copy_rate(subject.backbone.device)
    return Latency(
        plan=plan,
        first_row=place.first,
        windows=(place.short, place.long),
        copy_rate=rate,
        copied_bytes=copied,
        weight_bytes=weight_bytes(subject.backbone.parts),
        fixed=list(fixed),
        cells=cells,
        skipped=skipped,
    )


def _batch(
    subject: Subject, plan: LatencyPlan, place: Place, batch: int, bar: tqdm
) -> tuple[list[Cell], list[Skipped]]:
    """Every decoder at one batch size."""
    cells, skipped = [], []
    alone = [name for name, method in subject.decoders.items() if batch > 1 and not method.lockstep]
    skipped += [Skipped(decoder=name, batch=batch, reason="paints one image at a time") for name in alone]
    rest = {name: method for name, method in subject.decoders.items() if name not in alone}
    bar.update(len(alone))
    try:
        bench = _Bench(subject, place, batch)
        runs = {name: _Runs(bench, method) for name, method in rest.items()}
    except torch.OutOfMemoryError:
        bar.update(len(rest))
        return cells, [*skipped, *(_full(name, batch) for name in rest)]
    # Decoders take turns; one that runs out of memory leaves the others in.
    for turn in range(plan.repeats):
        for name in list(runs):
            try:
                if turn == 0 or runs[name].spent < plan.seconds:
                    runs[name].pair()
                if turn == plan.repeats - 1:
                    cells.append(runs[name].cell(name))
                    bar.update()
            except torch.OutOfMemoryError:
                skipped.append(_full(name, batch))
                del runs[name]
                bar.update()
    return cells, skipped


def _full(name: str, batch: int) -> Skipped:
    return Skipped(decoder=name, batch=batch, reason="does not fit into the device's memory")


class _Bench:
    """The open session that all decoders of a batch size paint on."""

    def __init__(self, subject: Subject, place: Place, batch: int) -> None:
        self.subject, self.place, self.batch = subject, place, batch
        texts = [subject.prompts[index % len(subject.prompts)] for index in range(batch)]
        self.samples = [index // len(subject.prompts) for index in range(batch)]
        self.texts, self.device = texts, subject.backbone.device
        self.prefill = min(self._prefill() for _ in range(PREFILLS))
        self.window = Window(
            subject.backbone, texts, guided=subject.sampling.guidance != 1, first=place.first
        )

    def _prefill(self) -> float:
        backbone = self.subject.backbone
        synchronise(self.device)
        start = time.perf_counter()
        with torch.inference_mode():
            backbone.begin(backbone.encode(self.texts, guided=self.subject.sampling.guidance != 1))
        synchronise(self.device)
        return time.perf_counter() - start


class _Runs:
    """The windows of one decoder at one batch size."""

    def __init__(self, bench: _Bench, method: Method) -> None:
        self._bench, self._method = bench, method
        self._seconds: list[float] = []
        self._peak: int | None = None
        self.spent = 0.0
        """Seconds of the timed windows."""

    def pair(self) -> None:
        """Times both windows; before the first pair one row is painted untimed."""
        cuda = self._bench.device.type == "cuda"
        if cuda and not self._seconds:
            torch.cuda.reset_peak_memory_stats(self._bench.device)
        if not self._seconds:
            self._paint(1)
        place = self._bench.place
        short, long = (self._paint(rows)["total"] for rows in (place.short, place.long))
        if cuda and not self._seconds:
            self._peak = torch.cuda.max_memory_allocated(self._bench.device)
        # On a busy machine the longer window may come out shorter: noise, not a row for less than nothing.
        self._seconds.append(self._bench.prefill + place.image(short, max(short, long)))
        self.spent += short + long

    def cell(self, name: str) -> Cell:
        """The figures; phases by another pair, which waits at every phase edge."""
        bench, window = self._bench, self._bench.window
        window.cache_read = 0
        short = self._paint(bench.place.short, synchronize=True)
        read = window.cache_read
        window.cache_read = 0
        long = self._paint(bench.place.long, synchronize=True)
        read, forwards = read + window.cache_read, short["forwards"] + long["forwards"] - 2
        phases = {phase: max(0.0, bench.place.image(short[phase], long[phase])) for phase in PHASES}
        phases["prefill"] = bench.prefill
        total = sum(phases.values())
        return Cell(
            decoder=name,
            batch=bench.batch,
            forwards=bench.place.image(short["forwards"], long["forwards"]),
            latency=spread(self._seconds),
            phases={phase: seconds / total for phase, seconds in phases.items()},
            bytes_read=weight_bytes(window.parts) + read / max(1, forwards),
            peak_bytes=self._peak,
        )

    def _paint(self, rows: int, synchronize: bool = False) -> dict[str, float]:
        """Seconds by phase of a window of so many rows, their total, and its forwards."""
        bench = self._bench
        bench.window.rows = rows
        noise = Noise(bench.subject.seed, bench.texts, bench.samples)
        made = generate(
            bench.window, bench.texts, self._method, noise, bench.subject.sampling, synchronize=synchronize
        )
        return {**made.trace.seconds, "forwards": float(made.trace.forwards)}
