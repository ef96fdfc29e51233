"""``joulelab estimate-sweep`` and ``joulelab memory``: the best clock, and the largest batch."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import tyro

from joulelab.analysis.estimates.detail import fit_sentence, fits_table, memory_table
from joulelab.analysis.estimates.overview import (
    around_table,
    best_curve,
    optima_table,
    sweep_sentence,
)
from joulelab.cli.estimator.estimate import Asking
from joulelab.cli.terminal import progress, terminal
from joulelab.cli.words import numbers
from joulelab.core.bounds import MOST_MHZ, check_range
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.estimator.api import Fit, fits
from joulelab.estimator.clock_sweep import Curve, sweep
from joulelab.estimator.estimate import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(Asking):
    """Predict over core clocks, and say which clock has the lowest EDP; nothing is run.

    `experiments/dvfs_sweep.py` measures the same.

    Attributes:
        objective: What is to be low: edp, ed2p, energy, time, or that of a plug-in.
        clock_mhz: Core clocks: 600,1200 or 600:1980:15 for first, last and step. By default
            the whole range of each device.
        mode: How kernels are launched.
        power_limit_w: Power limit of each device; by default its own.
    """

    objective: str = "edp"
    clock_mhz: Annotated[str | None, tyro.conf.arg(metavar="MHZ[,MHZ...]")] = None
    mode: Mode = "eager"
    power_limit_w: float | None = None

    def run(self) -> int:
        """Predict and print."""
        question = self.question(
            mode=self.mode, point=OperatingPoint(power_limit_w=self.power_limit_w)
        )
        clocks = () if self.clock_mhz is None else clock_list(self.clock_mhz)
        with progress() as report:
            curves = sweep(question, clocks_mhz=clocks, progress=report)
        if self.json:
            print(
                json.dumps({"curves": [_curve_fields(curve, self.objective) for curve in curves]})
            )
        else:
            self._show(curves)
        return 0

    def _show(self, curves: Sequence[Curve]) -> None:
        console = terminal()
        console.print(sweep_sentence(curves, self.objective), style="bold")
        console.print(optima_table(curves, self.objective))
        console.print(around_table(best_curve(curves, self.objective), self.objective))


def clock_list(words: str) -> tuple[int, ...]:
    """Read ``"600,1200"`` or ``"600:1980:15"``.

    Raises:
        ConfigError: If it is neither.
    """
    if ":" not in words:
        return numbers(words, "clock-mhz")
    parts = numbers(words.replace(":", ","), "clock-mhz")
    if len(parts) != 3 or parts[2] < 1 or parts[0] > parts[1]:
        raise ConfigError(f"--clock-mhz takes first:last:step, ascending, got {words!r}.")
    for part in parts:
        check_range("--clock-mhz", part, 1, MOST_MHZ)
    return tuple(range(parts[0], parts[1] + 1, parts[2]))


def _curve_fields(curve: Curve, objective: str) -> dict[str, object]:
    content = {**asdict(curve), "device": curve.processor.key}
    del content["processor"]
    return {**content, "best_mhz": curve.clocks_mhz[curve.best(objective)]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Asking):
    """Show the memory that models need: parts, timeline, and the largest batch that fits."""

    def run(self) -> int:
        """Trace and print; 1 if something does not fit."""
        with progress() as report:
            found = fits(self.question(), progress=report)
        if self.json:
            print(json.dumps({"memory": [_fit_fields(fit) for fit in found]}, indent=2))
        else:
            _show(found)
        return int(not all(fit.worst.fits for fit in found))


def _show(found: Sequence[Fit]) -> None:
    console = terminal()
    for fit in found:
        console.print(fit_sentence(fit), style="bold")
    if len(found) > 1:
        console.print(fits_table(found))
        return
    for phase, memory in found[0].phases.items():
        console.print()
        console.print(memory_table(phase, memory))


def _fit_fields(fit: Fit) -> dict[str, object]:
    return {
        "model": fit.model,
        "device": fit.processor.key,
        "precision": fit.precision,
        "batch": fit.batch,
        "fits": fit.worst.fits,
        "peak_b": fit.worst.peak_b,
        "largest_batch": fit.largest_batch,
        "phases": {name: asdict(memory) for name, memory in fit.phases.items()},
    }
