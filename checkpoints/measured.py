"""`results.json` of a bundle: what a benchmark of these heads measured, as far as a card tells it.

The benchmark writes the file and may add to it; read here is what every version of it has.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backbones.errors import RowcastError
from checkpoints.config import BundleConfig
from checkpoints.json_file import damaged, read_json

RESULTS_FILE = "results.json"
LARGEST = 64 << 20
"""Bytes of the file; maps of a large grid take a few million."""
LARGEST_FIGURE = 1e15


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A value with its 95 % interval; no interval of a single unit."""

    value: float
    low: float | None
    high: float | None

    def text(self, form: str, unit: str = "") -> str:
        """`2.71x (2.60 to 2.83)`."""
        whole = form.format(self.value) + unit
        if self.low is None or self.high is None:
            return whole
        return f"{whole} ({form.format(self.low)} to {form.format(self.high)})"


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """The figures of one decoder."""

    name: str
    lossless: bool
    forwards: float
    steps: float
    """Forwards of the baseline over its own."""
    median: float
    q1: float
    q3: float
    """Seconds an image: median and quartiles."""
    speedup: Interval
    nll_delta: Interval | None
    """Nats a token above the baseline."""
    acceptance: dict[str, tuple[int, int]]
    """(accepted, examined) drafts of the first round by head."""

    @property
    def law(self) -> str:
        return "lossless" if self.lossless else "lossy"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One benchmark."""

    created: str
    device: str
    software: str
    images: int
    """Timed images a decoder."""
    quality_images: int
    baseline: str
    decoders: list[Decoder]
    control: Interval | None
    """The `nll_delta` of the baseline with another seed: chance."""


def read_measured(folder: Path, config: BundleConfig) -> Measured | None:
    """The results in `folder`; none where the heads were not measured.

    Raises:
        RowcastError: if the file is damaged, or of other heads or another backbone.
    """
    path = folder / RESULTS_FILE
    try:
        whole = _Values(path, read_json(path, LARGEST))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RowcastError(f"expected to read {path}, found {error.strerror}; check the path") from error
    wanted = {"weights": config.weights_sha256, "backbone": config.backbone.fingerprint}
    found = {"weights": whole.text("weights_sha256"), "backbone": whole.at("subject").text("fingerprint")}
    for what, value in wanted.items():
        if found[what] != value:
            raise RowcastError(
                f"expected results of the {what} {value[:16]} in {path}, found those of {found[what][:16]}; "
                "measure these heads with `python -m train`, or remove the file"
            )
    machine, plan = whole.at("environment"), whole.at("plan")
    control = whole.optional("control")
    return Measured(
        created=whole.text("created"),
        device=machine.text("device"),
        software=f"torch threads: {machine.number('threads'):.0f}, {machine.text('dtype')}, "
        f"torch {machine.text('torch')}, transformers {machine.text('transformers')}",
        images=int(plan.number("images")),
        quality_images=int(plan.number("quality_images")),
        baseline=whole.text("baseline"),
        decoders=[_decoder(entry) for entry in whole.entries("decoders")],
        control=None if control is None else _interval(control.at("nll_delta")),
    )


def _decoder(entry: "_Values") -> Decoder:
    latency, quality = entry.at("latency"), entry.optional("quality")
    heads = entry.at("acceptance")
    return Decoder(
        name=entry.text("name"),
        lossless=entry.flag("lossless"),
        forwards=entry.number("forwards"),
        steps=entry.number("step_compression"),
        median=latency.number("median"),
        q1=latency.number("q1"),
        q3=latency.number("q3"),
        speedup=_interval(entry.at("speedup")),
        nll_delta=None if quality is None else _interval(quality.at("nll_delta")),
        acceptance={label: heads.pair(label) for label in heads.names},
    )


def _interval(entry: "_Values") -> Interval:
    low, high = (None if entry.absent(edge) else entry.number(edge) for edge in ("low", "high"))
    return Interval(value=entry.number("value"), low=low, high=high)


class _Values:
    """A JSON object that names the place where it is not as expected."""

    def __init__(self, path: Path, data: object, where: str = "") -> None:
        self._path, self._where = path, where
        if not isinstance(data, Mapping):
            raise damaged(path, f"{str(data)[:40]!r} in place of an object at {where or 'the top'}")
        self._data = data

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self._data]

    def absent(self, name: str) -> bool:
        return self._data.get(name) is None

    def at(self, name: str) -> "_Values":
        return _Values(self._path, self._data.get(name), self._place(name))

    def optional(self, name: str) -> "_Values | None":
        return None if self.absent(name) else self.at(name)

    def entries(self, name: str) -> list["_Values"]:
        found = self._one(name, list)
        return [_Values(self._path, entry, self._place(f"{name}.{at}")) for at, entry in enumerate(found)]

    def text(self, name: str) -> str:
        return self._one(name, str)

    def flag(self, name: str) -> bool:
        return self._one(name, bool)

    def number(self, name: str) -> float:
        found = self._one(name, float, int)
        if not -LARGEST_FIGURE < found < LARGEST_FIGURE:
            raise damaged(self._path, f"{str(found)[:40]} at {self._place(name)}")
        return float(found)

    def pair(self, name: str) -> tuple[int, int]:
        found = self._one(name, list)
        if len(found) != 2 or any(type(number) is not int for number in found):
            raise damaged(self._path, f"{found!r:.40} in place of two counts at {self._place(name)}")
        return found[0], found[1]

    def _one(self, name: str, *kinds: type) -> Any:
        found = self._data.get(name)
        if type(found) not in kinds:
            wanted = kinds[0].__name__
            raise damaged(self._path, f"{found!r:.40} in place of a {wanted} at {self._place(name)}")
        return found

    def _place(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name
