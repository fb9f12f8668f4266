"""Where the time of a step goes."""

import time

import pytest
import torch

from train import clock
from train.clock import PHASES, StepClock
from train.meter import Pace, memory_peak
from train.progress import pace_line

pytestmark = pytest.mark.unit


def seconds(**given):
    return dict.fromkeys(PHASES, 0.0) | given


def test_every_moment_goes_to_the_phase_that_ends(monkeypatch):
    times = iter([0.0, 1.0, 3.0, 6.0, 10.0, 11.0])
    monkeypatch.setattr(clock, "perf_counter", lambda: next(times))
    watch = StepClock()
    for phase in ("data", "backbone", "heads", "backbone"):
        watch.lap(phase)
    assert watch.read() == seconds(data=1.0, backbone=6.0, heads=3.0)
    watch.lap("other")
    assert watch.read() == seconds(other=1.0), "what was read is not read again"
    assert watch.read() == seconds()


def test_laps_are_cheap():
    watch, begin = StepClock(), time.process_time()
    for _ in range(1000):
        watch.lap("data")
    watch.read()
    assert time.process_time() - begin < 0.1, "a tenth of a millisecond a lap would show in a small model"


def test_the_bottleneck_is_what_takes_longest_besides_validation():
    pace = Pace(
        images_per_second=19.84,
        seconds=seconds(data=0.1, backbone=0.4, heads=0.35, optimiser=0.1, validation=9.0, other=0.05),
    )
    assert pace.shares() == pytest.approx({"data": 0.1, "backbone": 0.4, "heads": 0.45, "other": 0.05})
    assert pace_line(pace) == ("19.8 images/s, data 10% backbone 40% heads 45% other 5%, bottleneck heads")


def test_the_peak_of_memory_is_in_bytes():
    before = memory_peak(torch.device("cpu"))
    assert 50e6 < before < 100e9
    block = torch.ones(int(before) // 8 + 8_000_000)  # half of the peak, and in fp32
    assert memory_peak(torch.device("cpu")) >= before
    del block


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_phases_are_what_the_device_spent():
    device = torch.device("cuda")
    watch, matrix = StepClock(device), torch.ones(4096, 4096, device=device)
    watch.read()
    begin = time.perf_counter()
    for _ in range(20):
        matrix = matrix @ matrix / 4096
    issued = time.perf_counter() - begin
    watch.lap("heads")
    watch.lap("data")
    found = watch.read()
    assert found["heads"] > issued, "the host was done long before the device"
    assert found["data"] < 0.1 * found["heads"]
