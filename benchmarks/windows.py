"""How good is a window whose edges nobody announced, and what does an open monitor cost?

Usage: python benchmarks/windows.py                    (a simulated H200 in real time)
       python benchmarks/windows.py --device nvml      (observes only; no setter is called)
       python benchmarks/windows.py --against counter  (is the stated uncertainty honest?)

Windows of several lengths follow each other under a steady bf16 GEMM; where Zeus is installed, it
measures the same windows in the same process. The energy of the whole run is the counter's.
Against the counter each window is compared with the counter's own energy over it, read all the
time from another thread: unlike the mean of a run it follows what the GPU itself does.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import tyro
from counter_polling import Polling
from figures import Figure
from look_loss import loss_of_work, noted
from rich.console import Console
from rich.table import Table

from joulelab import Monitor
from joulelab.core.clock import MonotonicClock
from joulelab.core.counter import EnergyCounter
from joulelab.core.grouping import grouped_by
from joulelab.devices.base import Device
from joulelab.devices.choice import find_visible
from joulelab.devices.simulated import DriverStore, SimulatedDevice, fleet
from joulelab.sampling.window_loop import TimeSpan
from joulelab.workloads import WORKLOADS

LENGTHS_S = {0.5: 60, 1.0: 40, 2.0: 20, 5.0: 10}
PROMISED = {0.5: 0.008, 1.0: 0.004, 2.0: 0.0025, 5.0: 0.001}
COMPARED = {0.5: 60, 1.0: 30}
GEMM_N = 8192
BELOW_CAP_N = 1024
SMALL_N = 256
CAPPED = f"GEMM {GEMM_N}"
BELOW = f"GEMM {BELOW_CAP_N}"
SMALL = "small kernels"
SETTLE_S = 6.0
COST_S = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where to measure.

    Attributes:
        device: A real GPU, or a simulated one that lives in real time.
        against: What windows are compared with.
        json: Write everything to this file.
    """

    device: Literal["nvml", "simulated"] = "simulated"
    against: Literal["mean", "counter"] = "mean"
    json: str | None = None


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Windows of one length: power and stated uncertainty, relative, by each tool."""

    length_s: float
    power_w: list[float] = field(default_factory=list)
    u_w: list[float] = field(default_factory=list)
    zeus_w: list[float] = field(default_factory=list)
    counter_w: float = 0.0
    begin_end_s: list[float] = field(default_factory=list)
    zeus_begin_end_s: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A window beside the counter's energy over it; each with its standard uncertainty."""

    load: str
    length_s: float
    energy_j: float
    energy_u_j: float
    counter_j: float
    counter_u_j: float

    @property
    def misses(self) -> float:
        """Difference, in combined standard uncertainties."""
        u_j = (self.energy_u_j**2 + self.counter_u_j**2) ** 0.5
        return abs(self.energy_j - self.counter_j) / u_j


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What an open monitor costs: throughput of small kernels, and a share of a core."""

    loss: float
    loss_u: float
    core_share: float


def spread(values: list[float]) -> float:
    """Standard deviation, relative to the mean."""
    return statistics.stdev(values) / statistics.fmean(values)


def windows(
    device: Device, monitor: Monitor, zeus: Any, work: Callable[[], None], *, length_s: float
) -> Outcome:
    """Measure windows that follow each other."""
    outcome = Outcome(length_s=length_s)
    measured = []
    start_s, start_j = at_tick(device, work)
    # After the pause of those reads the power cap swings for seconds: +5, -4, +3 % on an H100.
    settled_s = time.monotonic() + SETTLE_S
    while time.monotonic() < settled_s:
        work()
    for number in range(LENGTHS_S[length_s]):
        name = f"{length_s}-{number}"
        if zeus is not None:
            began_s = time.perf_counter()
            zeus.begin_window(name)
            outcome.zeus_begin_end_s.append(time.perf_counter() - began_s)
        began_s = time.perf_counter()
        window = monitor.begin(name)
        outcome.begin_end_s.append(time.perf_counter() - began_s)
        until_s = time.monotonic() + length_s
        while time.monotonic() < until_s:
            work()
        began_s = time.perf_counter()
        measured.append(monitor.end(window))
        outcome.begin_end_s[-1] += time.perf_counter() - began_s
        if zeus is not None:
            began_s = time.perf_counter()
            result = zeus.end_window(name)
            outcome.zeus_begin_end_s[-1] += time.perf_counter() - began_s
            outcome.zeus_w.append(result.total_energy / result.time)
    stop_s, stop_j = at_tick(device, work)
    outcome.counter_w = (stop_j - start_j) / (stop_s - start_s)
    for window in measured:
        outcome.power_w.append(window.power_w)
        outcome.u_w.append(window.energy_u_j / (window.duration_s or 1.0))
    return outcome


def at_tick(device: Device, work: Callable[[], None]) -> tuple[float, float]:
    """Go on working until the counter ticks; return when it did, and its value."""
    before_j = now_j = device.read_energy_j()
    while now_j == before_j:
        work()
        now_j = device.read_energy_j()
    return time.monotonic(), now_j


def compared(
    device: Device, monitor: Monitor, load: str, work: Callable[[], None], *, length_s: float
) -> list[Compared]:
    """Measure windows beside the counter, whose edges are not in step with its ticks."""
    measured = []
    with Polling(device) as polling:
        work_for(work, SETTLE_S)
        for number in range(COMPARED[length_s]):
            work_for(work, 0.037)
            start_s = time.monotonic()
            window = monitor.begin(f"{load}-{length_s}-{number}")
            work_for(work, length_s)
            measured.append((start_s, time.monotonic(), monitor.end(window)))
        work_for(work, 0.5)
    counter = EnergyCounter(polling.polls())
    references = [counter.window(start_s, stop_s) for start_s, stop_s, _ in measured]
    return [
        Compared(
            load=load,
            length_s=length_s,
            energy_j=window.energy_j,
            energy_u_j=window.energy_u_j,
            counter_j=reference.energy_j,
            counter_u_j=reference.energy_u_j,
        )
        for (_, _, window), reference in zip(measured, references, strict=True)
    ]


def work_for(work: Callable[[], None], duration_s: float) -> None:
    """Work for at least so long."""
    until_s = time.monotonic() + duration_s
    while time.monotonic() < until_s:
        work()


def cost(device: Device, small: Callable[[], None]) -> Cost:
    """Find what an open monitor costs a loop of small kernels, and a program that only waits."""
    calls: list[tuple[float, float]] = []
    units: list[TimeSpan] = []
    restore = noted(device, calls)
    with Monitor(devices=[device]):
        time.sleep(SETTLE_S)
        until_s = time.monotonic() + COST_S
        while (start_s := time.monotonic()) < until_s:
            small()
            units.append(TimeSpan(start_s=start_s, stop_s=time.monotonic(), work=1.0))
        restore()
        loss, loss_u = loss_of_work(calls, units)
        cpu_s, start_s = time.process_time(), time.monotonic()
        time.sleep(COST_S / 2)
        share = (time.process_time() - cpu_s) / (time.monotonic() - start_s)
    return Cost(loss=loss, loss_u=loss_u, core_share=share)


@contextmanager
def loads(settings: Settings) -> Generator[tuple[Device, dict[str, Callable[[], None]]]]:
    """Yield a GPU and a unit of each load on it, which takes at most some milliseconds."""
    if settings.device == "simulated":
        with tempfile.TemporaryDirectory() as folder:
            (address,) = fleet("h200_sxm", 1, folder)
            device = SimulatedDevice(
                DriverStore(folder).state(address.uuid), clock=MonotonicClock()
            )
            workload = WORKLOADS["gemm"].from_knobs({"n": GEMM_N})
            (phase,) = workload.cost().phases
            device.play(phase)
            yield device, {CAPPED: lambda: time.sleep(0.01), SMALL: lambda: _spin(5e-5)}
        return
    import torch

    from joulelab.devices import DEVICES

    (address, *_) = find_visible("nvml")
    device = DEVICES["nvml"].open(address)
    a, b = (torch.randn(GEMM_N, GEMM_N, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c, d = (x[:BELOW_CAP_N, :BELOW_CAP_N].contiguous() for x in (a, b))
    e, f = (torch.randn(SMALL_N, SMALL_N, device="cuda") for _ in range(2))

    def repeated(times: int, work: Callable[[], Any]) -> Callable[[], None]:
        def unit() -> None:
            for _ in range(times):
                work()
            torch.cuda.synchronize()

        return unit

    yield (
        device,
        {
            CAPPED: repeated(4, lambda: torch.matmul(a, b)),
            BELOW: repeated(300, lambda: torch.matmul(c, d)),
            SMALL: repeated(100, lambda: torch.add(e, f)),
        },
    )
    device.close()


def _spin(duration_s: float) -> None:
    until_s = time.perf_counter() + duration_s
    while time.perf_counter() < until_s:
        pass


def zeus_monitor() -> Any:
    """Return Zeus' monitor, or nothing where it is not installed."""
    try:
        from zeus.monitor import ZeusMonitor
    except ImportError:
        return None
    return ZeusMonitor(gpu_indices=[0], approx_instant_energy=False)


def measure(settings: Settings) -> tuple[list[Outcome], Cost]:
    """Measure all lengths, and what a monitor costs."""
    with loads(settings) as (device, units):
        zeus = zeus_monitor() if settings.device == "nvml" else None
        with Monitor(devices=[device]) as monitor:
            outcomes = [
                windows(device, monitor, zeus, units[CAPPED], length_s=length_s)
                for length_s in LENGTHS_S
            ]
        return outcomes, cost(device, units[SMALL])


def compare(settings: Settings) -> list[Compared]:
    """Compare windows of several lengths under each load with the counter."""
    with loads(settings) as (device, units), Monitor(devices=[device]) as monitor:
        return [
            window
            for load, unit in units.items()
            for length_s in COMPARED
            for window in compared(device, monitor, load, unit, length_s=length_s)
        ]


def print_compared(compared_windows: list[Compared]) -> None:
    """Print one row per load and length."""
    table = Table(
        "load", "window s", "n", "W", "mean / counter", "u %", "counter u %", "in u", "in 2 u"
    )
    groups = grouped_by(compared_windows, lambda window: (window.load, window.length_s))
    for (load, length_s), group in groups.items():
        counted_j = sum(w.counter_j for w in group)
        misses = [w.misses for w in group]
        table.add_row(
            load,
            f"{length_s:g}",
            str(len(group)),
            f"{statistics.fmean(w.energy_j for w in group) / length_s:.0f}",
            f"{sum(w.energy_j for w in group) / counted_j:.4f}",
            f"{100 * sum(w.energy_u_j for w in group) / counted_j:.2f}",
            f"{100 * sum(w.counter_u_j for w in group) / counted_j:.2f}",
            f"{statistics.fmean(miss <= 1 for miss in misses):.0%}",
            f"{statistics.fmean(miss <= 2 for miss in misses):.0%}",
        )
    Console().print(table)
    misses = [window.misses for window in compared_windows]
    within_1, within_2 = (statistics.fmean(miss <= k for miss in misses) for k in (1, 2))
    print(
        f"Of {len(misses)} windows {within_1:.0%} are within one combined uncertainty, "
        f"{within_2:.0%} within two."
    )


def within(outcome: Outcome, times: float) -> float:
    """Share of the windows whose power is within so many stated uncertainties of the mean."""
    mean_w = statistics.fmean(outcome.power_w)
    pairs = zip(outcome.power_w, outcome.u_w, strict=True)
    return statistics.fmean(abs(power_w - mean_w) <= times * u_w for power_w, u_w in pairs)


def figures() -> list[Figure]:
    """Return the figures that the project promises of windows in own code."""
    outcomes, price = measure(Settings())
    how = "adjoining windows under a steady GEMM, simulated H200 in real time"
    return [
        *(
            Figure(
                name=f"spread of windows of {outcome.length_s:g} s",
                measured=100 * spread(outcome.power_w),
                promised=100 * PROMISED[outcome.length_s],
                unit="%",
                how=how,
            )
            for outcome in outcomes
        ),
        Figure(
            name="begin and end of a window",
            measured=1e3 * max(statistics.median(o.begin_end_s) for o in outcomes),
            promised=0.2,
            unit="ms",
            how=f"median, {how}",
        ),
        Figure(
            name="throughput lost to an open monitor",
            measured=100 * price.loss,
            promised=0.5,
            unit="%",
            how=f"a loop of 50 us of host work; standard error {100 * price.loss_u:.2f} %",
        ),
        Figure(
            name="a core's time taken by an open monitor",
            measured=100 * price.core_share,
            promised=2.0,
            unit="% of a core",
            how="while the program waits; includes the simulation of the GPU",
        ),
    ]


def main(settings: Settings) -> int:
    """Print one row per length."""
    if settings.against == "counter":
        beside = compare(settings)
        print_compared(beside)
        write_json(settings, [asdict(window) for window in beside])
        return 0
    outcomes, price = measure(settings)
    table = Table(
        "window s", "sd %", "Zeus sd %", "mean / counter", "u %", "in u", "in 2 u", "ms", "Zeus ms"
    )
    for outcome in outcomes:
        mean_w = statistics.fmean(outcome.power_w)
        zeus = outcome.zeus_w
        table.add_row(
            f"{outcome.length_s:g}",
            f"{100 * spread(outcome.power_w):.2f}",
            f"{100 * spread(zeus):.2f}" if zeus else "-",
            f"{mean_w / outcome.counter_w:.4f}",
            f"{100 * statistics.fmean(outcome.u_w) / mean_w:.2f}",
            f"{within(outcome, 1):.0%}",
            f"{within(outcome, 2):.0%}",
            f"{1e3 * statistics.median(outcome.begin_end_s):.3f}",
            f"{1e3 * statistics.median(outcome.zeus_begin_end_s):.1f}" if zeus else "-",
        )
    Console().print(table)
    print(
        f"An open monitor costs small kernels {100 * price.loss:.2f} +- {100 * price.loss_u:.2f} % "
        f"of their throughput, and {100 * price.core_share:.2f} % of a core."
    )
    write_json(settings, {"windows": [asdict(o) for o in outcomes], "cost": asdict(price)})
    return 0


def write_json(settings: Settings, values: Any) -> None:
    """Write values where the settings say."""
    if settings.json is not None:
        Path(settings.json).write_text(json.dumps(values))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Settings)))
