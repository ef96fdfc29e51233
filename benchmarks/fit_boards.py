"""Fit what networks draw, and what hosts take for programs, to networks that test nothing.

Usage: python benchmarks/fit_boards.py FOLDER HOST.toml [--device h100_sxm]

FOLDER is that of fit_networks.py, HOST.toml the host it was measured on. Prints the scalars of
power of the GPU, and the factors of ``hardware/hosts.py``. Times come first: fit_networks.py.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from fit_networks import plan_of
from numpy.typing import NDArray
from scipy.optimize import least_squares

from joulelab.core.point import OperatingPoint
from joulelab.estimator.pricing.run import PhaseRun, Plan, conditions, launch_s, run
from joulelab.hardware.catalogue import GPUS
from joulelab.hardware.hosts import LAUNCHES, Host, find_host, on_host
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import PROCESSORS, processor_of
from joulelab.hardware.scalars import value_of, with_values

_POWERS = (
    *("power.constant_w", "power.clock_w_per_ghz", "power.busy_w_per_ghz"),
    *("power.flop_j.tensor_bf16", "power.flop_j.tensor_tf32", "power.flop_j.fp32"),
    *("levels.L2.byte_j", "levels.DRAM.byte_j"),
)
_PULL = 0.3
"""How far a change by a factor of e outweighs a case whose power is off by as much."""
_HOST_PULL = 0.1
_TOLERANCE = 0.1
_TIME_TOLERANCE = 0.25
"""Error of time, as a share, from which a case says less of power."""
_HOST_BOUND = 0.7
"""Share of the measured time that kernels take, up to which the host sets it."""
_LEFT_OUT = ("small-lstm",)
"""Its layers are one call each of cuDNN, which launches a kernel for each step in time."""
Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A case, as measured and as it is run."""

    row: dict[str, str]
    plan: Plan

    def predicted(self, processor: Processor) -> PhaseRun:
        """Return how ``processor`` runs it."""
        mode: Any = self.row["mode"]
        return run(self.plan, conditions(processor, mode, (OperatingPoint(),), 1))

    @property
    def time_s(self) -> float:
        """Its time, as measured."""
        return float(self.row["time_s"])


def main() -> int:
    """Print what fits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("host", help="as joulelab estimate takes it")
    parser.add_argument("--device", default="h100_sxm", help="as joulelab estimate takes it")
    settings = parser.parse_args()
    cases = _read(settings.folder)
    host = find_host(settings.host)
    processor = on_host(PROCESSORS[settings.device], host)
    for name, value in fitted_powers(cases, processor).items():
        print(f"{name} = {value:.4g}")
    for name, value in fitted_factors(cases, processor, host).items():
        print(f"{name} = {value:.3g}")
    return 0


def _read(folder: Path) -> list[Case]:
    with (folder / "networks.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["energy_j"] and not row["error"]]
    return [Case(row=row, plan=plan_of(row, row["mode"])) for row in rows]


def fitted_powers(cases: Sequence[Case], processor: Processor) -> dict[str, float]:
    """Return the scalars of power that give the mean powers, where times are about right."""
    catalogue = processor_of(GPUS[processor.key])
    before = np.array([value_of(catalogue, name) for name in _POWERS])
    measured = np.array([float(case.row["power_w"]) for case in cases])

    def residuals(changes: Array) -> Array:
        there = with_values(processor, dict(zip(_POWERS, before * np.exp(changes), strict=True)))
        runs = [case.predicted(there) for case in cases]
        times_s = np.array([one.latency_s[0] for one in runs])
        power_w = np.array([one.energy_j[0] for one in runs]) / times_s
        late = times_s / np.array([case.time_s for case in cases]) - 1.0
        weight = np.exp(-0.5 * (late / _TIME_TOLERANCE) ** 2)
        return np.concatenate([weight * np.log(power_w / measured), _PULL * changes])

    found = least_squares(
        residuals, np.zeros(len(_POWERS)), loss="soft_l1", f_scale=_TOLERANCE, max_nfev=12
    )
    return dict(zip(_POWERS, map(float, before * np.exp(found.x)), strict=True))


def fitted_factors(cases: Sequence[Case], processor: Processor, host: Host) -> dict[str, float]:
    """Return how programs take longer on ``host`` than loops around their calls."""
    bound = [case for case in cases if _is_host_bound(case, processor)]
    inference = [case for case in bound if not case.plan.is_training]
    parts_s = np.array([_parts_s(case, processor, host) for case in inference])
    measured_s = np.array([case.time_s for case in inference])

    def residuals(logs: Array) -> Array:
        missed = np.log(parts_s @ np.exp(logs) / measured_s)
        return np.concatenate([missed, _HOST_PULL * (logs - 1.0)])

    found = least_squares(residuals, np.ones(3), loss="soft_l1", f_scale=_TOLERANCE)
    factors = np.exp(found.x)
    training = [
        case.time_s / float(np.dot(_parts_s(case, processor, host), factors))
        for case in bound
        if case.plan.is_training
    ]
    names = ("LAUNCHES", "MODULES", "VIEWS")
    return {**dict(zip(names, map(float, factors), strict=True)), "TRAINING": median(training)}


def _is_host_bound(case: Case, processor: Processor) -> bool:
    if case.row["mode"] != "eager" or case.row["network"] in _LEFT_OUT:
        return False
    settled = case.predicted(processor).settled
    device_s = settled.device_s[0, case.plan.table.sequence].sum()
    return bool(device_s <= _HOST_BOUND * case.time_s)


def _parts_s(case: Case, processor: Processor, host: Host) -> tuple[float, float, float]:
    """Return the time in loops of launches, modules entered, and calls that launch nothing."""
    timing = replace(processor.timing, module_s=0.0, view_s=0.0, training_launch=1.0)
    launches_s = launch_s(case.plan, replace(processor, timing=timing), "eager")
    return (
        float(launches_s.sum()) / LAUNCHES,
        host.module_s * float(case.plan.entered.sum()),
        host.operator_s["view"] * float(case.plan.calls_before.sum()),
    )


if __name__ == "__main__":
    sys.exit(main())
