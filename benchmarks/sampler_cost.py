#!/usr/bin/env python
"""What watching costs: a share of one core, and throughput of the work that is watched.

    python benchmarks/sampler_cost.py                   (no GPU needed)
    python benchmarks/sampler_cost.py --device nvml     (observes only; no setter is called)

Without a GPU, a simulated one lives on the machine's clock, and each of its reads keeps a core
busy for as long as it does in the driver of an H200 (:mod:`spinning_device`).
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import Literal

import tyro
from figures import Figure, print_figures
from look_loss import loss_of_work, watched_loop
from spinning_device import SpinningDevice

from joulelab.bench import Bench
from joulelab.core.clock import MonotonicClock
from joulelab.core.configuration import Configuration
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.devices import DEVICES
from joulelab.devices.base import Device
from joulelab.devices.simulated import DriverStore, SimulatedDevice, fleet
from joulelab.sampling.meter import find_ticks
from joulelab.sampling.tick_tracker import TickTracker

Unit = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the benchmark.

    Attributes:
        device: What to watch: a simulated H200 that costs what a real one does, or a GPU.
        watch_s: How long each loop is watched to find the work that it loses.
    """

    device: Literal["simulated", "nvml"] = "simulated"
    watch_s: float = 40.0


@contextmanager
def opened(kind: str) -> Generator[Device]:
    """Open a device for the length of a ``with`` block."""
    if kind == "nvml":
        device = DEVICES["nvml"].open(DEVICES["nvml"].discover()[0])
        try:
            yield device
        finally:
            device.close()
        return
    with TemporaryDirectory() as folder:
        (address,) = fleet("h200_sxm", 1, str(Path(folder)))
        driver = DriverStore(folder).state(address.uuid)
        yield SpinningDevice(SimulatedDevice(driver, clock=MonotonicClock()))


def core_shares(device: Device, workload: str) -> tuple[float, float]:
    """Measure two trials in a row; returns the share of a core that watching took in each.

    The first one has to find the counter's ticks. The warm-up is cut short, which leaves less
    time to spread the cost over.
    """
    procedure = Procedure(warmup_max_s=6.0, relative_ci=1.0)
    with Bench(device, procedure=procedure) as bench:  # a default point calls no setter
        return _core_share(bench, workload), _core_share(bench, workload)


def _core_share(bench: Bench, workload: str) -> float:
    trial = Trial(study="cost", name=workload, configuration=Configuration.of(workload, {}, None))
    (record,) = bench.measure(trial)
    share = record.measurement.observed.sampler_share
    if share is None:
        raise SystemExit(f"{workload} was not measured: {record.measurement.findings}")
    return share


def throughput_loss(device: Device, unit: Unit, watch_s: float) -> tuple[float, float]:
    """Return the share of the work that watching costs, and its standard error."""
    tracker = TickTracker()
    find_ticks(device, tracker)
    return loss_of_work(*watched_loop(device, unit, watch_s, tracker))


def python_unit() -> float:
    """Compute in pure Python for about a millisecond, never letting go of the lock."""
    total = 0
    for number in range(20_000):
        total += number * number
    return 1.0


def sleeping_unit() -> float:
    """Wait for a millisecond, as a program does whose GPU is at work."""
    sleep(0.001)
    return 1.0


def gpu_units() -> dict[str, Unit]:
    """Return loops on a real GPU: many small kernels launched one by one, and large GEMMs."""
    import torch

    small = torch.randn(256, 256, device="cuda")
    large = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    return {
        "eager loop of small kernels": partial(_run_small, small),
        "loop of 8192 bf16 GEMMs": partial(_run_large, large),
    }


def _run_small(small: object) -> float:
    import torch

    for _ in range(200):
        torch.add(small, 1.0)
    torch.cuda.synchronize()
    return 1.0


def _run_large(large: object) -> float:
    import torch

    for _ in range(4):
        torch.matmul(large, large)
    torch.cuda.synchronize()
    return 1.0


def measured(settings: Settings) -> list[Figure]:
    """Measure everything on one device."""
    real = settings.device == "nvml"
    units = {"pure Python loop": python_unit, "sleeping loop": sleeping_unit}
    on = "real GPU" if real else "simulated H200 whose reads spin for as long as a real one's"
    with opened(settings.device) as device:
        found = [
            Figure(
                name=f"sampler and meter, {order} {workload} trial",
                measured=100 * share,
                promised=2.0,
                unit="% of a core",
                how=f"{on}, default procedure with a warm-up of 3 to 6 s",
            )
            for workload in ("idle", "gemm")
            for order, share in zip(("first", "later"), core_shares(device, workload), strict=True)
        ]
        for name, unit in (gpu_units() if real else units).items():
            loss, u = throughput_loss(device, unit, settings.watch_s)
            found.append(
                Figure(
                    name=f"loss of throughput, {name}",
                    measured=100 * loss,
                    promised=0.5,
                    unit="%",
                    how=f"{on}, work done during looks against that just beside them, over "
                    f"{settings.watch_s:g} s; standard error {100 * u:.2f} %",
                )
            )
    return found


def figures() -> list[Figure]:
    """Return the promised figures, on the simulated device."""
    return measured(Settings())


if __name__ == "__main__":
    print_figures(measured(tyro.cli(Settings)))
