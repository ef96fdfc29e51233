#!/usr/bin/env python
"""Where the cost of watching goes: CPU time of every kind of driver call, idle and under load.

    python benchmarks/driver_calls.py                   (no GPU needed)
    python benchmarks/driver_calls.py --device nvml     (observes only; no setter is called)

The cost of one call differs between hosts by an order of magnitude. Run this where
``sampler_cost.py`` misses its promise.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

import tyro
from rich.console import Console
from rich.table import Table
from sampler_cost import Unit, gpu_units, opened, python_unit, sleeping_unit

from joulelab.core.procedure import Procedure
from joulelab.devices.base import Device
from joulelab.sampling.instruments import Instruments
from joulelab.sampling.meter import find_ticks
from joulelab.sampling.tick_tracker import TickTracker

READS = (
    "read_energy_j",
    "read_power_samples",
    "read_state",
    "read_brief_state",
    "read_processes",
    "read_memory_power_w",
    "read_power_w",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the benchmark.

    Attributes:
        device: What to watch: a simulated H200 that costs what a real one does, or a GPU.
        watch_s: How long each load is watched.
    """

    device: Literal["simulated", "nvml"] = "simulated"
    watch_s: float = 6.0


def time_reads(device: Device) -> dict[str, list[float]]:
    """Have every read of ``device`` note its CPU time from now on; returns where, by name."""
    calls_s: dict[str, list[float]] = defaultdict(list)
    for name in READS:
        setattr(device, name, _timed(getattr(device, name), calls_s[name]))
    return calls_s


def _timed(read: Callable[..., Any], calls_s: list[float]) -> Callable[..., Any]:
    def timed(*arguments: Any) -> Any:
        begun_s = time.thread_time()
        try:
            return read(*arguments)
        finally:
            calls_s.append(time.thread_time() - begun_s)

    return timed


def watch(device: Device, unit: Unit, watch_s: float, tracker: TickTracker) -> float:
    """Watch a load; returns the share of a core that all of the watching took."""
    with Instruments(device, Procedure(), tracker=tracker) as instruments:
        until_s = time.monotonic() + watch_s
        while time.monotonic() < until_s:
            unit()
        return instruments.cpu_share(instruments.sampler.log())


def main(settings: Settings) -> None:
    """Print a table of calls for each load."""
    real = settings.device == "nvml"
    loads: dict[str, Unit] = {"waiting": sleeping_unit}
    loads |= gpu_units() if real else {"pure Python loop": python_unit}
    with opened(settings.device) as device:
        calls_s = time_reads(device)
        tracker = TickTracker()
        find_ticks(device, tracker)
        for name, unit in loads.items():
            for times_s in calls_s.values():
                times_s.clear()
            share = watch(device, unit, settings.watch_s, tracker)
            _print(f"{name}: {share:.2%} of a core", calls_s, settings.watch_s)


def _print(title: str, calls_s: dict[str, list[float]], watch_s: float) -> None:
    table = Table(title=title, title_justify="left")
    for column in ("call", "calls", "mean ms", "longest ms", "% of a core"):
        table.add_column(column, justify="left" if column == "call" else "right")
    for name, times_s in calls_s.items():
        if times_s:
            table.add_row(
                name.removeprefix("read_"),
                str(len(times_s)),
                f"{1e3 * fmean(times_s):.2f}",
                f"{1e3 * max(times_s):.2f}",
                f"{100 * sum(times_s) / watch_s:.2f}",
            )
    Console().print(table)


if __name__ == "__main__":
    main(tyro.cli(Settings))
