"""Fit what units draw in kernels that leave them waiting, and what boards draw beside all kernels.

Usage: python benchmarks/fit_activity.py [--each]

Reads mean powers of the networks that test nothing, on several boards (experiments/results). Times
are as measured, energies of kernels as priced: only the power of busy units in each class of
kernels, and a board's constant power, are fitted. Prints classes by their activity, to choose
those of ``estimator/pricing/kernel_class.py``; each table's constant power over the shipped one;
and errors with what is shipped now.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import numpy as np
from fit_networks import plan_of
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from joulelab.csv_table import read_csv_table
from joulelab.estimator.pricing.kernel_class import ACTIVITY
from joulelab.estimator.pricing.power import FIXED_SHARE, settle
from joulelab.estimator.pricing.roofline import group_costs
from joulelab.hardware.processors import PROCESSORS

_RESULTS = Path(__file__).parents[1] / "experiments" / "results"
_TABLES = {
    "h200_sxm": (
        *("h200_kernels/networks.csv", "h200_channels_last/networks.csv"),
        *("h200_groups/networks.csv", "h200_recurrent/networks.csv"),
        *(f"h200_hosts/{name}_fitted.csv" for name in ("first", "second", "third", "fourth")),
    ),
    "h100_sxm": ("h100_kernels/networks.csv",),
}
_LEFT_OUT = ("small-lstm", "t5-small-encoder")
"""As in fit_boards.py."""
_LATE = 1.15
"""Time of a program's kernels over that measured, up to which powers say something of kernels."""
_QUIET_W = 160.0
"""Up to which power kernels do so little that a program says what the board draws."""
_LEAST_SHARE, _LEAST_NETWORKS = 0.04, 2
"""A class is fitted where its busy units take this share of the energy of so many networks."""
_PULL, _CONSTANT_W, _TOLERANCE, _ROUNDS = 0.4, 5.0, 0.1, 20
Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that was measured, and what its kernels take in all.

    Attributes:
        busy_j: Energy of busy units by class, all as active as in most kernels.
        other_j: Energy of all else, the board's constant power for the measured time included.
    """

    name: str
    network: str
    table: str
    device: str
    time_s: float
    power_w: float
    busy_j: dict[str, float]
    other_j: float

    @property
    def energy_j(self) -> float:
        """Energy as measured."""
        return self.power_w * self.time_s

    @property
    def error(self) -> float:
        """How far power is off with what is shipped, as a share."""
        busy_j = sum(ACTIVITY.get(name, 1.0) * joules for name, joules in self.busy_j.items())
        return (busy_j + self.other_j) / self.energy_j - 1.0


def main() -> int:
    """Print activities, constants of boards and errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--each", action="store_true", help="print every program, too")
    settings = parser.parse_args()
    programs = [
        one
        for device, tables in _TABLES.items()
        for table in tables
        for one in _read(table, device)
    ]
    names = _fitted_names(programs)
    for name, value in sorted(zip(names, _activities(programs, names), strict=True), key=_second):
        print(f"{value:5.2f}  {name}")
    for table in dict.fromkeys(one.table for one in programs):
        quiet = [one for one in programs if one.table == table and one.power_w < _QUIET_W]
        if quiet:
            over_w = median(-one.error * one.power_w for one in quiet)
            print(f"{over_w:+5.1f} W  {table}, {len(quiet)} programs")
    for device in _TABLES:
        here = [one for one in programs if one.device == device]
        print(f"{device}: {len(here)} programs, power {_mean_error(here):.1%} off")
    for one in sorted(programs, key=lambda program: program.error):
        if settings.each:
            print(f"{one.error:+7.1%}  {one.name} ({one.table})")
    return 0


def _second(pair: tuple[str, float]) -> float:
    return pair[1]


def _mean_error(programs: Sequence[Program]) -> float:
    return fmean(abs(one.error) for one in programs)


def _read(table: str, device: str) -> list[Program]:
    rows = read_csv_table(_RESULTS / table)
    found = [
        _program(row, table, device)
        for row in rows
        if not row["error"]
        and row["power_w"]
        and row["mode"] in ("eager", "graph")
        and row["network"] not in _LEFT_OUT
    ]
    return [one for one in found if one is not None]


def _program(row: dict[str, str], table: str, device: str) -> Program | None:
    processor, found = PROCESSORS[device], plan_of(row, row["mode"])
    costs = group_costs(found.table, processor)
    clock_mhz = np.array([float(row["sm_clock_mhz"] or processor.default_clock_mhz)])
    settled = settle(costs, processor, clock_mhz, np.array([np.inf]))
    counts = np.bincount(found.table.sequence, minlength=len(costs.fill)).astype(float)
    time_s = float(row["time_s"])
    if counts @ settled.device_s[0] > _LATE * time_s:
        return None
    work_j = settled.compute_j[0] + settled.memory_j[0]
    voltage2 = processor.voltage.at(clock_mhz)[0] ** 2
    busy_w = voltage2 * processor.power.busy_w_per_ghz * clock_mhz[0] / 1e3
    work_s = settled.device_s[0] - costs.fixed_s - costs.turns_s_mhz / clock_mhz[0]
    busy_j = counts * busy_w * (costs.fill * work_s + FIXED_SHARE * costs.fixed_s)
    by_class: dict[str, float] = defaultdict(float)
    for group, row_of in enumerate(found.table.main):
        by_class[found.table.classes[row_of]] += float(busy_j[group])
    static_w = float(settled.static_j[0, 0] / settled.device_s[0, 0])
    return Program(
        name=row["name"],
        network=row["network"],
        table=table,
        device=device,
        time_s=time_s,
        power_w=float(row["power_w"]),
        busy_j=dict(by_class),
        other_j=float(counts @ work_j - costs.activity @ busy_j) + static_w * time_s,
    )


def _fitted_names(programs: Sequence[Program]) -> list[str]:
    networks: dict[str, set[str]] = defaultdict(set)
    for one in programs:
        for name, joules in one.busy_j.items():
            if joules > _LEAST_SHARE * one.energy_j:
                networks[name].add(one.network)
    return [name for name, found in networks.items() if len(found) >= _LEAST_NETWORKS]


def _activities(programs: Sequence[Program], names: Sequence[str]) -> Array:
    """Return activities by name, pulled to 1, fitted with a constant power for each table."""
    tables = list(dict.fromkeys(one.table for one in programs))
    shares = np.array(
        [
            [one.busy_j.get(name, 0.0) / one.energy_j for name in names]
            + [float(one.table == table) / one.power_w for table in tables]
            for one in programs
        ]
    )
    rest = np.array(
        [
            one.energy_j
            - one.other_j
            - sum(v for name, v in one.busy_j.items() if name not in names)
            for one in programs
        ]
    ) / np.array([one.energy_j for one in programs])
    prior = np.array([1.0] * len(names) + [0.0] * len(tables))
    pull = np.diag(1 / np.array([_PULL] * len(names) + [_CONSTANT_W] * len(tables)))
    least = np.where(prior > 0, 0.0, -np.inf)
    weight = np.ones(len(programs))
    for _ in range(_ROUNDS):
        scale = weight / _TOLERANCE
        left, right = shares * scale[:, None], rest * scale
        found = lsq_linear(
            np.vstack([left, pull]), np.concatenate([right, pull @ prior]), bounds=(least, np.inf)
        )
        weight = 1 / np.sqrt(1 + ((shares @ found.x - rest) / _TOLERANCE) ** 2)
    activities: Array = found.x[: len(names)]
    return activities


if __name__ == "__main__":
    sys.exit(main())
