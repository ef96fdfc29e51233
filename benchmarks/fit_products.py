#!/usr/bin/env python
"""Fit what simulated GPUs draw to public sweeps, each family of applications held out in turn.

Usage: python benchmarks/fit_products.py [--data FOLDER] [--board a100_sxm...] [--each] [--alone]

What sweeps show by themselves gives the curve of voltage and the constant: of an application, the
rest is its own. Counters at each clock, where a table has them, give what units and memory draw.
Coefficients are pulled towards what the catalogue had before, how strongly is chosen without the
family that is scored: by the errors of each other family, left out of a fit without both. Prints
errors of what was before, of those fits and of the catalogue, and the coefficients of all. Errors
of shape are those of power over its highest clock's, where it is known; power by counters alone
errs at that clock too. Applications without counters are scored with an own part from their lowest
and highest clock.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean

import numpy as np
from product_sweeps import (
    NAMES,
    OF_EVERY_SWEEP,
    SOURCES,
    Array,
    Program,
    coefficients_of,
    prior_of,
    read,
)
from scipy.optimize import least_squares
from smoothing import smoothed_best_mhz, smoothed_regret

from joulelab.hardware import GPUS, GpuSpec

DATA = Path(__file__).parents[2] / "shared" / "data"
_TOLERANCE, _NEAR = 0.05, 0.05
_LARGEST_CHANGE = 2.0  # of a logarithm
PULLS = (0.1, 0.03, 0.01)
_OWN = 2.0
"""How much more an error counts that no counter can explain: at 1 the product of matrices in fp64
is off by 4.4 % at any power of its own, where each program is to be within 4 % on simulated GPUs.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Coefficients as :data:`NAMES`, and the pull of their fit, where there was one."""

    pull: float | None
    board: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Errors of one application, as shares; ``power`` by counters alone."""

    power: float
    shape: float
    chosen_mhz: float
    best_mhz: float
    regret: float

    @property
    def is_near(self) -> bool:
        """Whether the clock of least EDP is within 5 % of the smoothed sweep's."""
        return abs(self.chosen_mhz / self.best_mhz - 1.0) <= _NEAR


def main() -> int:
    """Print errors and coefficients of each board."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--board", nargs="+", choices=sorted(SOURCES), default=sorted(SOURCES))
    parser.add_argument("--each", action="store_true", help="print each application")
    parser.add_argument("--alone", action="store_true", help="hold out applications, not families")
    settings = parser.parse_args()
    for board in settings.board:
        print(board)
        tables = [read(settings.data, source) for source in SOURCES[board]]
        if settings.alone:
            tables = [[replace(one, family=one.name) for one in table] for table in tables]
        _study(GPUS[board], tables, settings)
    return 0


def _study(
    spec: GpuSpec, tables: Sequence[Sequence[Program]], settings: argparse.Namespace
) -> None:
    before, now = (Fit(pull=None, board=board) for board in (prior_of(spec), coefficients_of(spec)))
    held_out, after = nested([one for table in tables for one in table], spec)
    for source, table in zip(SOURCES[spec.key], tables, strict=True):
        for label, fits in (
            ("before", dict.fromkeys(held_out, before)),
            ("held out", held_out),
            ("catalogue", dict.fromkeys(held_out, now)),
        ):
            scores = {one.name: score(one, fits[one.name].board, spec) for one in table}
            report(f"  {source.gpu} in {Path(source.table).name}, {label}", list(scores.values()))
            for name, of in scores.items() if settings.each else ():
                print(
                    f"    {name}: power {of.power:.1%}, shape {of.shape:.1%}, {of.chosen_mhz:.0f} "
                    f"for {of.best_mhz:.0f} MHz, regret {of.regret:.2%}, pull {fits[name].pull}"
                )
    print(f"  of all, pull {after.pull}:")
    for name, was, value in zip(NAMES, before.board, after.board, strict=True):
        print(f"  {name} = {value:.4g}  # {was:.4g}")


def nested(programs: Sequence[Program], spec: GpuSpec) -> tuple[Mapping[str, Fit], Fit]:
    """Return the fit for each application without its family, and that of all.

    The pull for a family is that of least mean error of shape over the others, each fitted without
    both.
    """

    @cache  # leaving a and b out is leaving b and a out
    def board(left_out: frozenset[str], pull: float) -> Array:
        return fitted([one for one in programs if one.family not in left_out], spec, pull)

    def fit(left_out: frozenset[str]) -> Fit:
        others = [one for one in programs if one.family not in left_out]

        def error(pull: float) -> float:
            return fmean(
                shape_error(one, board(left_out | {one.family}, pull), spec) for one in others
            )

        pull = min(PULLS, key=error)
        return Fit(pull=pull, board=board(left_out, pull))

    of_family = {name: fit(frozenset({name})) for name in {one.family for one in programs}}
    return {one.name: of_family[one.family] for one in programs}, fit(frozenset())


def fitted(programs: Sequence[Program], spec: GpuSpec, pull: float) -> Array:
    """Return the coefficients of least errors of power, each application counting alike."""
    before, bandwidth_b_per_s = prior_of(spec), spec.memory_bandwidth_b_per_s
    with_counters = [one for one in programs if one.counters is not None]
    num_fitted = len(NAMES) if with_counters else OF_EVERY_SWEEP

    def changed(changes: Array) -> Array:
        return before * np.exp(np.pad(changes, (0, len(NAMES) - num_fitted)))

    def residuals(changes: Array) -> Array:
        board = changed(changes)
        own = [_OWN * _missed(one, one.own_w(board)) for one in programs]
        counted = [_missed(one, one.power_w(board, bandwidth_b_per_s)) for one in with_counters]
        return np.concatenate([*own, *counted, pull * changes])

    found = least_squares(
        residuals, np.zeros(num_fitted), bounds=(-_LARGEST_CHANGE, _LARGEST_CHANGE),
        loss="soft_l1", f_scale=_TOLERANCE, x_scale=0.3, max_nfev=60,
    )  # fmt: skip
    return changed(found.x)


def _missed(program: Program, power_w: Array) -> Array:
    return np.log(power_w / program.smooth.power_w) / len(power_w) ** 0.5


def shape_error(program: Program, board: Array, spec: GpuSpec) -> float:
    """Return the mean error of power over the highest clock's, where power is known, as a share."""
    power_w = program.power_w(board, spec.memory_bandwidth_b_per_s, is_known=True)
    return float(np.abs(power_w / program.smooth.power_w - 1.0).mean())


def score(program: Program, board: Array, spec: GpuSpec) -> Score:
    """Return the errors of one application on a board of coefficients; EDP at measured times."""
    bandwidth_b_per_s = spec.memory_bandwidth_b_per_s
    alone_w = program.power_w(board, bandwidth_b_per_s)
    known_w = program.power_w(board, bandwidth_b_per_s, is_known=True)
    chosen = int(np.argmin(known_w * program.smooth.time_s**2))
    chosen_mhz = float(program.sweep.sm_clock_mhz[chosen])
    return Score(
        power=float(np.abs(alone_w / program.sweep.power_w - 1.0).mean()),
        shape=shape_error(program, board, spec),
        chosen_mhz=chosen_mhz,
        best_mhz=smoothed_best_mhz(program.sweep, "edp"),
        regret=smoothed_regret(program.sweep, chosen_mhz, "edp"),
    )


def report(label: str, scores: Sequence[Score]) -> None:
    """Print mean errors, and in how many the EDP optimum is met."""
    mean = {
        name: fmean(getattr(one, name) for one in scores) for name in ("power", "shape", "regret")
    }
    print(
        f"{label}: power {mean['power']:.1%}, shape {mean['shape']:.1%}, EDP optimum within "
        f"{_NEAR:.0%} {sum(one.is_near for one in scores)} of {len(scores)}, smoothed regret "
        f"{mean['regret']:.2%}"
    )


if __name__ == "__main__":
    sys.exit(main())
