"""Measures one case: time, power and energy in a window, by the driver's samples and counter."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

import torch
from energy_poller import EnergyPoller
from estimator_anchors import Sensors
from kernel_profile import kernel_profile
from network_loops import Loop, LoopMaker, is_finite, num_parameters
from network_points import Case

from joulelab.core.host_pace import DISTURBED, python_call_s
from joulelab.estimator.calibration.host_speed import move_to_calmest_core

WARM_S, WINDOW_S = 0.8, 2.0
EDGE_S = 0.05
"""A power sample averages some 25 ms; those nearer to the window's start also saw its outside."""
_SAMPLE_S = 0.025

PARTS = 3
_CHUNK_S = 0.04
_MOST_DISTURBED = 0.1
"""Share of a window's chunks in which others may slow the host's core."""
_MOST_WINDOWS = 3
_LEAST_CHUNKS = 5
"""Undisturbed ones, for their time and power to be told."""
_PROFILED = ("eager", "compiled_launched")
"""Modes whose kernels a profile tells apart: within a graph they belong to no operator."""

_LARGEST_TRIAL = 150e6
"""Parameters up to which a trial runs a network on the CPU; larger ones run without values."""


@dataclass
class Runner:
    """Measures cases on one device.

    Attributes:
        scale: Share of the usual time that warming up and windows take.
        undisturbed_s: What a call of a Python function takes on a core to itself.
        profiles: Where profiles of kernels go, by case; ``None`` to make none.
    """

    device: str
    sensors: Sensors
    poller: EnergyPoller
    maker: LoopMaker
    uuid: str
    scale: float = 1.0
    undisturbed_s: float = math.inf
    profiles: dict[str, object] | None = None

    @property
    def is_trial(self) -> bool:
        """Whether nothing is measured."""
        return self.device == "cpu"

    def wait(self) -> None:
        """Wait until the device is done."""
        if not self.is_trial:
            torch.cuda.synchronize()

    def is_alive(self) -> bool:
        """Whether the device still takes work: an assertion in a kernel ends that."""
        try:
            self.wait()
        except RuntimeError:
            return False
        return True

    def measure(self, case: Case) -> dict[str, object]:
        """Return the columns of the row of ``case``."""
        if not self.is_trial:
            torch.cuda.reset_peak_memory_stats()
        begin_s = time.perf_counter()
        loop = self._loop(case)
        with loop.context():
            returned = loop.step()
            self.wait()
            first_s = time.perf_counter() - begin_s
            if not is_finite(loop.result(returned)):
                raise ValueError("not all results are finite")
            del returned
            self._first_round(loop)
            host_s = self._host_s(loop)
            row = self._calmest_window(loop, self._warm(loop), host_s)
        if self.profiles is not None and case.mode in _PROFILED:
            self.profiles[case.name] = kernel_profile(loop)
        memory_b = None if self.is_trial else torch.cuda.max_memory_allocated()
        times = {"host_s": host_s, "first_s": first_s}
        return {**row, **times, "peak_memory_b": memory_b}

    def _loop(self, case: Case) -> Loop:
        if not self.is_trial:
            return self.maker.make(case)
        large = num_parameters(case.model) > _LARGEST_TRIAL
        self.maker.device = "meta" if large else "cpu"
        return self.maker.make(case, longest=8, batch=2 if case.phase == "train" else 1)

    def _first_round(self, loop: Loop) -> None:
        """Go once through all shapes: cuDNN plans attention anew for each."""
        for _ in range(0 if self.is_trial else loop.period - 1):
            loop.step()
        self.wait()

    def _host_s(self, loop: Loop) -> float:
        """Return the time that launching one iteration takes, with nothing queued before it."""
        times_s = []
        for _ in range(1 if self.is_trial else 5):
            begin_s = time.perf_counter()
            loop.step()
            times_s.append(time.perf_counter() - begin_s)
            self.wait()
        return median(times_s)

    def _warm(self, loop: Loop) -> float:
        """Run ``loop`` for a while; returns its time per iteration in the last part of it."""
        num, stop_s = 1, time.perf_counter() + WARM_S * self.scale
        while True:
            begin_s = time.perf_counter()
            for _ in range(num):
                loop.step()
            self.wait()
            elapsed_s = time.perf_counter() - begin_s
            if time.perf_counter() > stop_s:
                return elapsed_s / num
            num = max(1, int(0.25 * WARM_S * self.scale * num / elapsed_s))

    def _calmest_window(self, loop: Loop, iteration_s: float, host_s: float) -> dict[str, object]:
        """Return the window in which others slowed the host least, where the host sets the pace."""
        windows = []
        for number in range(_MOST_WINDOWS):
            move_to_calmest_core()
            windows.append(self._window(loop, iteration_s) | {"num_windows": number + 1})
            if windows[-1]["disturbed"] <= _MOST_DISTURBED or host_s < iteration_s / 2:
                break
        return min(windows, key=lambda window: window["disturbed"])

    def _window(self, loop: Loop, iteration_s: float) -> dict[str, Any]:
        """Run the window in parts and read what it took."""
        per_part = max(int(WINDOW_S * self.scale / iteration_s / PARTS), 1)
        if loop.period > 1 and not self.is_trial:  # whole rounds, as near to the window as it gets
            per_part = max(round(per_part / loop.period), 1) * loop.period
        per_chunk = max(int(_CHUNK_S / iteration_s), 1)
        marks, paced = Marks(self.device), Pace(self.undisturbed_s)
        self.wait()
        started_s = time.time()
        marks.add()
        for _ in range(PARTS):
            for first in range(0, per_part, per_chunk):
                paced.run(loop.step, min(per_chunk, per_part - first))
            marks.add()
        self.wait()
        stop_s = time.time()
        samples = self.sensors.samples()
        edges_s = [started_s + elapsed_s for elapsed_s in marks.elapsed_s()[:-1]] + [stop_s]
        row = _evaluated(edges_s, per_part, samples, EDGE_S * self.scale)
        counter_w, clock_mhz = self.poller.read(started_s, stop_s)
        time_s = (stop_s - started_s) / (PARTS * per_part)
        return {
            **row,
            **paced.columns(samples),
            "counter_power_w": counter_w,
            "counter_energy_j": None if counter_w is None else counter_w * time_s,
            "sm_clock_mhz": clock_mhz,
            "temperature_c": self.sensors.temperature_c(),
            "started_s": started_s,
            "uuid": self.uuid,
        }


class Pace:
    """Whether other work slows the core between some iterations and the next.

    Args:
        undisturbed_s: What a call of a Python function takes on a core to itself.
    """

    def __init__(self, undisturbed_s: float) -> None:
        self._limit_s = DISTURBED * undisturbed_s
        self._chunks: list[Chunk] = []

    def run(self, step: Callable[[], object], num: int) -> None:
        """Run ``step`` ``num`` times."""
        pace_s, started_s, begin_s = python_call_s(), time.time(), time.perf_counter()
        for _ in range(num):
            step()
        elapsed_s = time.perf_counter() - begin_s
        self._chunks.append(Chunk(pace_s, started_s, started_s + elapsed_s, elapsed_s / num))

    def columns(self, samples: list[tuple[float, float]]) -> dict[str, object]:
        """Return an iteration's time and the power while undisturbed, and how often it was not.

        Args:
            samples: Times and powers; each is of some time before.
        """
        paces_s = [chunk.pace_s for chunk in self._chunks]
        worse_s = map(max, pairwise([*paces_s, paces_s[-1]]))
        calm = [pace_s <= self._limit_s for pace_s in worse_s]
        found: dict[str, object] = {"disturbed": 1 - sum(calm) / len(calm)}
        if sum(calm) < _LEAST_CHUNKS:
            return found
        times_s = [chunk.iteration_s for chunk, is_calm in self._both(calm) if is_calm]
        powers_w = [power_w for at_s, power_w in samples if self._is_calm(calm, at_s)]
        found["undisturbed_s"] = median(times_s)
        return found | ({"undisturbed_power_w": fmean(powers_w)} if powers_w else {})

    def _both(self, calm: list[bool]) -> Iterable[tuple["Chunk", bool]]:
        return zip(self._chunks, calm, strict=True)

    def _is_calm(self, calm: list[bool], at_s: float) -> bool:
        """Return whether all of what a sample averages was undisturbed."""
        averaged = [
            is_calm
            for chunk, is_calm in self._both(calm)
            if chunk.started_s <= at_s and at_s - _SAMPLE_S <= chunk.stopped_s
        ]
        return bool(averaged) and all(averaged)


class Chunk(NamedTuple):
    """Some iterations in a row, and the core's pace before them."""

    pace_s: float
    started_s: float
    stopped_s: float
    iteration_s: float


class Marks:
    """Points in what the device is given to do, and when it came to them."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._marks: list[Any] = []

    def add(self) -> None:
        """Mark where the device's queue ends now."""
        if self._device == "cpu":
            self._marks.append(time.perf_counter())
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._marks.append(event)

    def elapsed_s(self) -> list[float]:
        """Return when each was reached, after the first; the device must be done."""
        first = self._marks[0]
        if self._device == "cpu":
            return [mark - first for mark in self._marks]
        return [1e-3 * first.elapsed_time(mark) for mark in self._marks]


def _evaluated(
    edges_s: list[float], per_part: int, samples: list[tuple[float, float]], edge_s: float
) -> dict[str, object]:
    """Return means over the window, and their standard uncertainties from its parts."""
    start_s, stop_s = edges_s[0], edges_s[-1]
    num = per_part * (len(edges_s) - 1)
    inside = [each for each in samples if start_s + edge_s <= each[0] <= stop_s]
    power_w = fmean(power for _, power in inside) if inside else None
    pairs = list(pairwise(edges_s))
    parts = [[power for at_s, power in inside if one <= at_s < two] for one, two in pairs]
    time_s = (stop_s - start_s) / num
    return {
        "time_s": time_s,
        "time_u_s": _uncertainty([(two - one) / per_part for one, two in pairs]),
        "energy_j": None if power_w is None else power_w * time_s,
        "power_w": power_w,
        "power_u_w": _uncertainty([fmean(part) for part in parts if part]),
        "window_s": stop_s - start_s,
        "num_iterations": num,
        "num_samples": len(inside),
    }


def _uncertainty(values: list[float]) -> float | None:
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
