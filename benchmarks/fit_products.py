#!/usr/bin/env python
"""Fit what a simulated A100 SXM draws to public sweeps, each application held out in turn.

Usage: python benchmarks/fit_products.py [--data FOLDER] [--pull 0.03]

Two sources fit together: 21 HPC programs whose counters are known at each clock, and stages of
language models, of which only power and time are. Of the programs, power follows from counters by
the catalogue's law and the board's coefficients alone; of the stages, the curve of voltage and the
constant are the board's and the rest their own, from their highest and lowest clock. Prints errors
of the catalogue and of the fit without the application that is scored, and the coefficients of all.
"""

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, nnls
from smoothing import smoothed_best_mhz, smoothed_logs, smoothed_regret

from joulelab.core.power_law import board_w, height, voltage
from joulelab.hardware import GPUS, GpuSpec
from joulelab.power_models.decision import Sweep

DATA = Path(__file__).parents[2] / "shared" / "data"
BOARD, STAGES_OF = "a100_sxm", "A100-SXM4-80GB"
NAMES = (
    *("ridge_mhz", "slope_per_ghz", "curvature_per_ghz2", "constant_w", "clock_tree_w_per_ghz"),
    *("sm_w_per_ghz", "fp64_w_per_ghz", "tensor_fp64_w_per_ghz", "crossbar_j_per_b"),
    "dram_j_per_b",
)
_COUNTERS = ("sm_active", "fp_active", "tensor_active", "dram_active")
_TOLERANCE, _NEAR = 0.05, 0.05
_LARGEST_CHANGE = 2.0  # of a logarithm
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A sweep of one application by rising clock; ``counters`` are of shape ``(n, 4)``."""

    sweep: Sweep
    counters: Array | None

    def power_w(self, board: Array, bandwidth_b_per_s: float) -> Array:
        """Return its power at its clocks on a board of coefficients as :data:`NAMES`."""
        ghz = self.sweep.sm_clock_mhz / 1e3
        squared = voltage(height(ghz, board[0] / 1e3, 1.0), *board[1:3]) ** 2
        if self.counters is None:
            return self._own_w(squared, board[3])
        sm, fp, tensor, dram = self.counters.T
        clocked = board[4] + board[5] * sm + board[6] * fp + board[7] * tensor
        moved_b = dram * bandwidth_b_per_s
        return board_w(board[3], squared, ghz * clocked + board[8] * moved_b, board[9] * moved_b)

    def _own_w(self, squared: Array, constant_w: float) -> Array:
        """Return power with the application's own part from its lowest and highest clock."""
        rate = self.sweep.time_s[-1] / self.sweep.time_s
        columns = np.stack([squared * self.sweep.sm_clock_mhz / 1e3, squared * rate, rate], axis=1)
        ends, measured_w = [0, -1], self.sweep.power_w
        part, _ = nnls(columns[ends] / measured_w[ends, None], 1.0 - constant_w / measured_w[ends])
        return np.asarray(constant_w + columns @ part)


def main() -> int:
    """Print errors and coefficients."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--pull", type=float, default=0.03, help="towards the catalogue")
    settings = parser.parse_args()
    spec = GPUS[BOARD]
    before = coefficients_of(spec)
    programs = read(settings.data / "a100_hpc_dvfs.csv", _COUNTERS)
    stages = read(settings.data / "llm_stage_dvfs.csv", gpu=STAGES_OF)
    both = programs | stages
    held_out = {
        name: fitted([one for key, one in both.items() if key != name], spec, settings.pull)
        for name in both
    }
    for source, sweeps in (("programs", programs), ("stages", stages)):
        report(f"{source}, catalogue", sweeps, dict.fromkeys(sweeps, before), spec)
        report(f"{source}, held out", sweeps, held_out, spec)
    for name, was, value in zip(
        NAMES, before, fitted(list(both.values()), spec, settings.pull), strict=True
    ):
        print(f"{name} = {value:.4g}  # {was:.4g}")
    return 0


def coefficients_of(spec: GpuSpec) -> Array:
    """Return the catalogue's coefficients, as :data:`NAMES`."""
    curve, power = spec.voltage, spec.power
    pipes = (power.pipe_w_per_ghz["fp64"], power.pipe_w_per_ghz["tensor_fp64"])
    return np.array(
        [curve.ridge_mhz, curve.slope_per_ghz, curve.curvature_per_ghz2, power.constant_w,
         power.clock_tree_w_per_ghz, power.sm_w_per_ghz, *pipes, power.crossbar_j_per_b,
         power.dram_j_per_b]
    )  # fmt: skip


def read(path: Path, counters: Sequence[str] = (), gpu: str = "") -> dict[str, Program]:
    """Return the sweeps of a table by application; an empty counter is one of an unused pipe."""
    rows: defaultdict[str, list[list[float]]] = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if not gpu or row["gpu"] == gpu:
                columns = ("sm_clock_mhz", "power_w", "time_s", *counters)
                rows[row["app"]].append([float(row[name] or 0.0) for name in columns])
    found = {}
    for name, values in rows.items():
        table = np.array(sorted(values))
        sweep = Sweep(sm_clock_mhz=table[:, 0], power_w=table[:, 1], time_s=table[:, 2])
        found[name] = Program(sweep=sweep, counters=table[:, 3:] if counters else None)
    return found


def fitted(programs: Sequence[Program], spec: GpuSpec, pull: float) -> Array:
    """Return the coefficients of least errors of power, each application counting alike."""
    before = coefficients_of(spec)

    def residuals(changes: Array) -> Array:
        board = before * np.exp(changes)
        missed = [
            np.log(one.power_w(board, spec.memory_bandwidth_b_per_s) / one.sweep.power_w)
            / len(one.sweep.power_w) ** 0.5
            for one in programs
        ]
        return np.concatenate([*missed, pull * changes])

    found = least_squares(
        residuals, np.zeros(len(NAMES)), bounds=(-_LARGEST_CHANGE, _LARGEST_CHANGE),
        loss="soft_l1", f_scale=_TOLERANCE, x_scale=0.3, max_nfev=60,
    )  # fmt: skip
    return np.asarray(before * np.exp(found.x))


def report(
    label: str, programs: Mapping[str, Program], boards: Mapping[str, Array], spec: GpuSpec
) -> None:
    """Print mean errors of power, of its shape over the highest clock's, and of the EDP optimum."""
    scores = []
    for name, one in programs.items():
        measured = one.sweep
        power_w = one.power_w(boards[name], spec.memory_bandwidth_b_per_s)
        ratio = power_w / measured.power_w
        logs = smoothed_logs(measured.sm_clock_mhz, np.log(measured.time_s))
        chosen = int(np.argmin(np.log(power_w) + 2.0 * logs))
        chosen_mhz, best_mhz = measured.sm_clock_mhz[chosen], smoothed_best_mhz(measured, "edp")
        scores.append(
            (
                100 * np.abs(ratio - 1.0).mean(),
                100 * np.abs(ratio / ratio[-1] - 1.0).mean(),
                abs(chosen_mhz / best_mhz - 1.0) <= _NEAR,
                100 * smoothed_regret(measured, chosen_mhz, "edp"),
            )
        )
    power, shape, near, regret = np.array(scores, dtype=float).T
    print(
        f"{label}: power {power.mean():.1f} %, shape {shape.mean():.1f} %, EDP optimum within "
        f"{_NEAR:.0%} {near.sum():.0f} of {len(near)}, smoothed regret {regret.mean():.2f} %"
    )


if __name__ == "__main__":
    sys.exit(main())
