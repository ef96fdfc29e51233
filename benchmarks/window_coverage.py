"""Do windows that nobody announced keep the uncertainty they state?

Usage: python benchmarks/window_coverage.py --device nvml --out FOLDER   (observes only)
       python benchmarks/window_coverage.py --out FOLDER                 (a simulated H200)
       python benchmarks/window_coverage.py --replay FOLDER              (its recordings again)

Takes 140 s and needs numpy, nvidia-ml-py and PyTorch. Under each load windows of 0.5, 1, 2 and 5 s
follow each other, all lengths at once, while another thread reads the energy counter all the time.
The counter is the truth of each window, and what it showed at the edges is what a tool reports that
reads it when a window begins and ends, as Zeus does. In `paused` the program itself reads it there,
as with Zeus, so that the GPU waits for each read.

A second table moves windows along the recording, from tick to tick of the counter, where its energy
is exact but for the times of the ticks.
"""

import argparse
import csv
import math
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from counter_polling import Polling

from joulelab.core.clock import MonotonicClock
from joulelab.core.counter import EnergyCounter
from joulelab.core.curve import EnergyCurve
from joulelab.core.energy import EnergyWindow
from joulelab.core.ticks import CounterPolls, Ticks
from joulelab.core.trace import PowerTrace
from joulelab.devices.base import Device
from joulelab.devices.choice import find_visible
from joulelab.monitor import Monitor, Window
from joulelab.monitor.sensors import hold, let_go

LENGTHS_S = (0.5, 1.0, 2.0, 5.0)
SETTLE_S, TAIL_S = 5.0, 1.0
DURATIONS_S = {"capped": 45.0, "uncapped": 35.0, "paused": 20.0}
GEMM_N = 8192
SHARPEST = 1.5
"""Ticks known so many times worse than most are no edges of windows from tick to tick."""

Work = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One window; energies in joules, each with its standard uncertainty where it has one."""

    load: str
    length_s: float
    start_s: float
    stop_s: float
    energy_j: float
    energy_u_j: float
    counter_j: float
    counter_u_j: float
    plain_j: float | None
    begin_end_s: float

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return self.stop_s - self.start_s

    @property
    def misses(self) -> float:
        """Difference from the counter, in combined standard uncertainties."""
        u_j = math.hypot(self.energy_u_j, self.counter_u_j)
        return abs(self.energy_j - self.counter_j) / u_j


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What the sensors showed under one load."""

    samples: PowerTrace
    own: CounterPolls
    dense: CounterPolls


def work_until(work: Work, at_s: float) -> None:
    """Work at least until an instant."""
    while time.monotonic() < at_s:
        work()


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A window, when it was, and what its begin and end cost the program."""

    length_s: float
    start_s: float
    stop_s: float
    cost_s: float
    window: Window


def run_windows(monitor: Monitor, work: Work, duration_s: float, at_edge: Work) -> list[Taken]:
    """Run windows of all lengths at once; ``at_edge`` is done before their ends and begins."""
    opened: dict[float, tuple[float, float, Window]] = {}
    done = []
    step_s = min(LENGTHS_S)
    for number in range(round(duration_s / step_s) + 1):
        at_edge()
        for length_s in LENGTHS_S:
            if number % round(length_s / step_s):
                continue
            before_s = time.monotonic()
            if length_s in opened:
                start_s, cost_s, window = opened.pop(length_s)
                stop_s = time.monotonic()
                monitor.end(window)
                done.append(
                    Taken(
                        length_s=length_s,
                        start_s=start_s,
                        stop_s=stop_s,
                        cost_s=cost_s + time.monotonic() - before_s,
                        window=window,
                    )
                )
                before_s = time.monotonic()
            window = monitor.begin()
            now_s = time.monotonic()
            opened[length_s] = (now_s, now_s - before_s, window)
        at_edge()
        work_until(work, time.monotonic() + step_s)
    for _, _, window in opened.values():
        monitor.end(window)
    return done


def measure(
    device: Device, load: str, work: Work, duration_s: float
) -> tuple[list[Row], Recording]:
    """Measure one load."""
    paused = load == "paused"
    sensors = hold(device)
    with Monitor(devices=[device]) as monitor, Polling(device) as polling:
        work_until(work, time.monotonic() + SETTLE_S)
        at_edge = device.read_energy_j if paused else lambda: None
        done = run_windows(monitor, work, duration_s, at_edge)
        work_until(work, time.monotonic() + TAIL_S)
        trace = sensors.sampler.log().trace
        if trace is None or sensors.meter is None:
            raise SystemExit("This GPU has no power samples or no energy counter.")
        recording = Recording(samples=trace, own=sensors.meter.polls(), dense=polling.polls())
        counter = EnergyCounter(recording.dense)
        valid = [each for each in done if each.window.valid]
    let_go(device)
    for finding in {finding for each in done for finding in each.window.findings}:
        print(f"{load}: {finding.reason}: {finding.detail}")
    return [row(load, each, counter, recording.dense) for each in valid], recording


def row(load: str, taken: Taken, counter: EnergyCounter, dense: CounterPolls) -> Row:
    """Put a window beside the counter."""
    reference = counter.window(taken.start_s, taken.stop_s)
    first, last = np.searchsorted(dense.before_s, [taken.start_s, taken.stop_s])
    return Row(
        load=load,
        length_s=taken.length_s,
        start_s=taken.start_s,
        stop_s=taken.stop_s,
        energy_j=taken.window.energy_j,
        energy_u_j=taken.window.energy_u_j,
        counter_j=reference.energy_j,
        counter_u_j=reference.energy_u_j,
        plain_j=float(dense.energy_j[last] - dense.energy_j[first]),
        begin_end_s=taken.cost_s,
    )


def tick_to_tick(load: str, recording: Recording) -> list[Row]:
    """Move windows along a recording, from each sharp tick to the one that ends it."""
    ticks = EnergyCounter(recording.dense).ticks
    curve = EnergyCurve(recording.samples, EnergyCounter(recording.own).ticks)
    u_s = ticks.time_u_s
    sharp = np.flatnonzero(u_s <= SHARPEST * np.median(u_s))
    sharp = sharp[ticks.time_s[sharp] >= ticks.time_s[0] + SETTLE_S]
    rows = []
    for length_s in LENGTHS_S:
        for first in sharp:
            last = sharp[np.abs(ticks.time_s[sharp] - ticks.time_s[first] - length_s).argmin()]
            start_s, stop_s = float(ticks.time_s[first]), float(ticks.time_s[last])
            near = abs(stop_s - start_s - length_s) <= 0.1 * length_s
            if near and recording.samples.spans(start_s, stop_s):
                window = curve.window(start_s, stop_s)
                rows.append(_moved(load, length_s, window, ticks, [int(first), int(last)]))
    return rows


def _moved(
    load: str, length_s: float, window: EnergyWindow, ticks: Ticks, ends: Sequence[int]
) -> Row:
    risen_j = float(np.diff(ticks.energy_j[ends])[0])
    timing_s = float(np.hypot(*ticks.time_u_s[ends]))
    return Row(
        load=load,
        length_s=length_s,
        start_s=window.start_s,
        stop_s=window.start_s + window.duration_s,
        energy_j=window.energy_j,
        energy_u_j=window.energy_u_j,
        counter_j=risen_j,
        counter_u_j=risen_j / window.duration_s * timing_s,
        plain_j=None,
        begin_end_s=0.0,
    )


COLUMNS = (
    f"{'load':9}{'s':>4}{'n':>5}{'W':>6}{'sd %':>7}{'own %':>7}{'Zeus %':>8}"
    f"{'diff %':>8}{'bias %':>8}{'u %':>7}{'ref u%':>8}{'in u':>6}{'in 2u':>6}{'ms':>7}"
)


def print_table(title: str, rows: Sequence[Row]) -> None:
    """Print a line per load and length.

    ``sd`` is of the windows' powers, ``own`` of the counter's (what the GPU itself does), ``Zeus``
    of a counter read at the edges; ``diff`` and ``bias`` are of window less counter.
    """
    print(f"\n{title}\n{COLUMNS}")
    for load, length_s in dict.fromkeys((row.load, row.length_s) for row in rows):
        group = [row for row in rows if (row.load, row.length_s) == (load, length_s)]
        if len(group) >= 2:
            print(f"{load:9}{length_s:4g}{len(group):5}" + _figures(group))


def _figures(group: Sequence[Row]) -> str:
    power_w = np.array([row.energy_j / row.duration_s for row in group])
    counter_w = np.array([row.counter_j / row.duration_s for row in group])
    plain_w = np.array([row.plain_j / row.duration_s for row in group if row.plain_j is not None])
    difference = 100 * (power_w - counter_w) / counter_w.mean()
    misses = np.array([row.misses for row in group])
    u = 100 * np.mean([row.energy_u_j / row.counter_j for row in group])
    counter_u = 100 * np.mean([row.counter_u_j / row.counter_j for row in group])
    begin_end_ms = 1e3 * np.median([row.begin_end_s for row in group])
    return (
        f"{power_w.mean():6.0f}{_spread(power_w):>7}{_spread(counter_w):>7}"
        f"{_spread(plain_w):>8}{difference.std(ddof=1):8.3f}{difference.mean():+8.3f}"
        f"{u:7.3f}{counter_u:8.3f}{np.mean(misses <= 1):6.0%}{np.mean(misses <= 2):6.0%}"
        f"{begin_end_ms:7.3f}"
    )


def _spread(power_w: Any) -> str:
    return f"{100 * power_w.std(ddof=1) / power_w.mean():.2f}" if len(power_w) else "-"


@contextmanager
def loads(backend: str) -> Generator[tuple[Device, dict[str, Callable[[], Work]]]]:
    """Yield a GPU and, by load, what begins it and returns a unit of it of some milliseconds."""
    if backend == "nvml":
        from joulelab.devices.nvml import NvmlDevice

        device = NvmlDevice.open(find_visible("nvml")[0])
        yield device, _real_loads()
        device.close()
        return
    from joulelab.devices.simulated import DriverStore, SimulatedDevice, fleet
    from joulelab.workloads import WORKLOADS

    with tempfile.TemporaryDirectory() as folder:
        (address,) = fleet("h200_sxm", 1, folder)
        state = DriverStore(folder).state(address.uuid)
        simulated = SimulatedDevice(state, clock=MonotonicClock())

        def playing(size: int) -> Work:
            (phase,) = WORKLOADS["gemm"].from_knobs({"n": size}).cost().phases
            simulated.play(phase)
            return lambda: time.sleep(0.01)

        capped, uncapped = (lambda: playing(GEMM_N)), (lambda: playing(1024))
        yield simulated, {"capped": capped, "uncapped": uncapped, "paused": capped}


def _real_loads() -> dict[str, Callable[[], Work]]:
    import torch

    a, b = (torch.randn(GEMM_N, GEMM_N, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def repeated(times: int, work: Work) -> Work:
        def unit() -> None:
            for _ in range(times):
                work()
            torch.cuda.synchronize()

        return unit

    gemm = repeated(4, lambda: torch.matmul(a, b))
    copy = repeated(100, lambda: b.copy_(a))
    return {"capped": lambda: gemm, "uncapped": lambda: copy, "paused": lambda: gemm}


def write_csv(path: Path, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write rows to a file."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def write_recording(folder: Path, load: str, recording: Recording) -> None:
    """Write what the sensors showed, so that it can be judged again."""
    samples = recording.samples
    write_csv(
        folder / f"{load}_samples.csv",
        ("t_s", "power_w"),
        zip((f"{t:.6f}" for t in samples.t_s), (f"{p:.3f}" for p in samples.power_w), strict=True),
    )
    for name, polls in (("own", recording.own), ("dense", recording.dense)):
        rows = zip(polls.before_s, polls.after_s, polls.energy_j, strict=True)
        write_csv(
            folder / f"{load}_{name}_polls.csv",
            ("before_s", "after_s", "energy_j"),
            ((f"{a:.6f}", f"{b:.6f}", f"{e:.3f}") for a, b, e in rows),
        )


def read_recording(folder: Path, load: str) -> Recording:
    """Read what :func:`write_recording` wrote."""
    t_s, power_w = np.loadtxt(folder / f"{load}_samples.csv", delimiter=",", skiprows=1).T
    own, dense = (
        CounterPolls.of(np.loadtxt(folder / f"{load}_{name}_polls.csv", delimiter=",", skiprows=1))
        for name in ("own", "dense")
    )
    return Recording(samples=PowerTrace(t_s=t_s, power_w=power_w), own=own, dense=dense)


def main() -> int:
    """Measure or replay, and print two tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=("nvml", "simulated"), default="simulated")
    parser.add_argument("--out", type=Path, help="folder for windows and recordings as CSV")
    parser.add_argument("--replay", type=Path, help="folder of an earlier run, read again")
    parser.add_argument("--scale", type=float, default=1.0, help="times the usual duration")
    settings = parser.parse_args()
    rows, moved = [], []
    if settings.replay is not None:
        for load in DURATIONS_S:
            moved += tick_to_tick(load, read_recording(settings.replay, load))
        print_table("From tick to tick of the recordings", moved)
        return 0
    with loads(settings.device) as (device, starts):
        for load, start in starts.items():
            found, recording = measure(device, load, start(), settings.scale * DURATIONS_S[load])
            rows += found
            moved += tick_to_tick(load, recording)
            if settings.out is not None:
                settings.out.mkdir(parents=True, exist_ok=True)
                write_recording(settings.out, load, recording)
    if settings.out is not None:
        names = [field.name for field in fields(Row)]
        write_csv(settings.out / "windows.csv", names, map(astuple, rows))
    print_table("Windows as they were taken", rows)
    print_table("From tick to tick of the recordings", moved)
    return 0


if __name__ == "__main__":
    sys.exit(main())
