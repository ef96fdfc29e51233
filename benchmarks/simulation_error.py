#!/usr/bin/env python
"""How far the simulated H200 is from the real one over every workload and number format.

Usage: python benchmarks/run.py simulation_error
       python benchmarks/simulation_error.py [--only bert vit] [--fit-on llama vit] [--out JSON]

Reads the table that experiments/workload_matrix.py made on a real GPU at the driver's own clocks,
and asks the simulated board for the same cells. Then a few coefficients of the board and its host
are fitted on ``gemm``, ``stream`` and two workloads, and all the others are compared again.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from pathlib import Path

import numpy as np
import tyro
from figures import Figure, print_figures
from rich.console import Console
from rich.table import Table
from scaled_boards import COEFFICIENTS, scaled
from scipy.optimize import least_squares

from joulelab.core.configuration import KnobValue
from joulelab.core.cost import Data, PhaseCost
from joulelab.csv_table import read_csv_table
from joulelab.devices.simulated.engine import SteadyLoad, steady_load
from joulelab.errors import ConfigError, JouleLabError
from joulelab.hardware import GpuSpec
from joulelab.hardware.catalogue import spec_for
from joulelab.workloads import WORKLOADS
from joulelab.workloads.disk_cache import cached_cost

TABLE = Path(__file__).parents[1] / "experiments" / "results" / "h200_workloads" / "workloads.csv"
LIMITS = ("gemm", "stream")
"""What shows the limits of the GPU; always fitted on."""
SEEN = (
    "resnet50 fp32 64 forward",
    "diffusion sd-1.5 fp32 1 vae",
    "diffusion sd-1.5 bf16 1 vae",
    "llama llama-2-7b int4 1 prefill",
    "llama llama-2-7b int4 16 prefill",
    "vit vit-large int4 64 forward",
    *(
        f"lstm sentiment {precision} 64 {phase}"
        for precision in ("fp32", "tf32", "fp16", "bf16")
        for phase in ("inference", "train")
    ),
    *(
        f"detection yolos-small {precision} 1 forward"
        for precision in ("fp32", "tf32", "fp16", "bf16", "int8", "int4", "fp8")
    ),
)
"""Cells that told how kernels run or constants of them: neither fitted on nor held out."""
LARGEST_FACTOR = 4.0
_PRIOR = 0.05
"""Weight of leaving a coefficient as it is, so that one that no cell depends on stays."""
_CONSOLE = Console(width=140)


@dataclass(frozen=True, kw_only=True)
class SimulationError:
    """Compare the simulated GPU with the table of a real one.

    Attributes:
        table: What experiments/workload_matrix.py wrote.
        only: Workloads to look at; all by default.
        fit_on: Workloads to fit on, besides gemm and stream.
        out: File for the fitted factors, as JSON.
    """

    table: Path = TABLE
    only: tuple[str, ...] = ()
    fit_on: tuple[str, ...] = ("llama", "vit")
    out: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A phase of a workload that was measured, and what it asks of a device.

    Attributes:
        name: Workload, variant, format, batch, phase.
        workload: Name of the workload.
        precision: Number format.
        time_s: Measured time per unit of work.
        energy_j: Measured energy per unit of work.
        phase: Its cost.
        data: What the operands hold.
    """

    name: str
    workload: str
    precision: str
    time_s: float
    energy_j: float
    phase: PhaseCost
    data: Data


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A cell beside what the simulated board says of it."""

    cell: Cell
    simulated: SteadyLoad

    @property
    def log_errors(self) -> tuple[float, float]:
        """Natural logarithms of simulated over measured time and energy."""
        return (
            log(self.simulated.time_per_unit_s / self.cell.time_s),
            log(self.simulated.energy_per_unit_j / self.cell.energy_j),
        )

    @property
    def log_residuals(self) -> tuple[float, float]:
        """The same of time and power; an error of energy would count that of time again."""
        time, energy = self.log_errors
        return time, energy - time

    @property
    def errors(self) -> tuple[float, float]:
        """Simulated over measured time and energy, less 1."""
        time, energy = self.log_errors
        return exp(time) - 1, exp(energy) - 1


@dataclass(frozen=True, slots=True)
class Found:
    """Both comparisons of a table, and the fit between them."""

    plain: list[Comparison]
    fitted: list[Comparison]
    factors: dict[str, float]
    fit_on: frozenset[str]
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def held_out(self) -> list[Comparison]:
        """What neither the fit nor a constant has seen."""
        return [each for each in self.fitted if _role(each.cell, self.fit_on) == "held out"]

    @property
    def figures(self) -> list[Figure]:
        """What is promised of the simulated board."""
        return [
            *_figures("before any fit", self.plain, 20.0),
            *_figures("after the fit, all", self.fitted, 10.0),
            *_figures("after the fit, held out", self.held_out, 10.0),
        ]


def figures() -> list[Figure]:
    """Compare with the committed table; without one there is nothing to promise."""
    if not TABLE.is_file():
        _CONSOLE.print(f"No table at {TABLE}; left out.")
        return []
    return compare(SimulationError()).figures


def compare(config: SimulationError) -> Found:
    """Compare, fit, compare again, and print every cell."""
    spec, cells, left_out = read_cells(config.table, config.only)
    fit_on = frozenset({*LIMITS, *config.fit_on})
    chosen = [cell for cell in cells if cell.workload in fit_on]
    factors = fitted_factors(spec, chosen)
    found = Found(
        plain=simulate(spec, cells),
        fitted=simulate(scaled(spec, factors), cells),
        factors=factors,
        fit_on=fit_on,
        left_out=left_out,
    )
    _print(found)
    if config.out is not None:
        config.out.write_text(json.dumps({"fit_on": sorted(fit_on), "factors": factors}, indent=1))
    return found


def read_cells(path: Path, only: Sequence[str] = ()) -> tuple[GpuSpec, list[Cell], dict[str, str]]:
    """Return the GPU of a table, its measured cells with their costs, and what has no cost.

    Costs are traced once and kept on disk.

    Raises:
        ConfigError: If its GPU is not in the catalogue, or it has none of the workloads ``only``.
    """
    rows = [row for row in read_csv_table(path) if row["outcome"] == "measured"]
    names = {row["workload"] for row in rows}
    if unknown := set(only) - names:
        raise ConfigError(
            f"only must name measured workloads ({', '.join(sorted(names))}), "
            f"got {', '.join(sorted(unknown))}."
        )
    rows = [row for row in rows if not only or row["workload"] in only]
    spec = spec_for(rows[0]["device"])
    if spec is None:
        raise ConfigError(f"The table is of a {rows[0]['device']!r}, not in the catalogue.")
    cells: list[Cell] = []
    left_out: dict[str, str] = {}
    for row in rows:
        try:
            cells.append(_cell(row))
        except JouleLabError as error:
            left_out[_name(row)] = str(error)
    return spec, cells, left_out


def simulate(spec: GpuSpec, cells: Sequence[Cell]) -> list[Comparison]:
    """Ask the simulated board for every cell."""
    return [
        Comparison(cell=cell, simulated=steady_load(spec, cell.phase, data=cell.data))
        for cell in cells
    ]


def fitted_factors(spec: GpuSpec, cells: Sequence[Cell]) -> dict[str, float]:
    """Fit a factor for each coefficient to the log errors of time and power, large ones damped."""
    names = list(COEFFICIENTS)

    def residuals(logs: np.ndarray) -> np.ndarray:
        changed = scaled(spec, _factors(names, logs))
        errors = [each.log_residuals for each in simulate(changed, cells)]
        return np.concatenate([np.ravel(errors), _PRIOR * logs])

    bound = log(LARGEST_FACTOR)
    fit = least_squares(
        residuals, np.zeros(len(names)), bounds=(-bound, bound), loss="soft_l1", f_scale=0.1,
        diff_step=0.01, max_nfev=25,
    )  # fmt: skip
    return _factors(names, fit.x)


def _factors(names: Sequence[str], logs: np.ndarray) -> dict[str, float]:
    return {name: float(np.exp(each)) for name, each in zip(names, logs, strict=True)}


def _cell(row: Mapping[str, str]) -> Cell:
    knobs: dict[str, KnobValue] = json.loads(row["knobs"])
    cost = cached_cost(WORKLOADS[row["workload"]].from_knobs(knobs))
    return Cell(
        name=_name(row),
        workload=row["workload"],
        precision=row["precision"],
        time_s=float(row["time_per_unit_s"]),
        energy_j=float(row["energy_per_unit_j"]),
        phase=cost.phase(row["phase"]),
        data=cost.data,
    )


def _name(row: Mapping[str, str]) -> str:
    named = (row["workload"], row["variant"], row["precision"], row["batch"], row["phase"])
    return " ".join(dict.fromkeys(part for part in named if part))


def _role(cell: Cell, fit_on: frozenset[str]) -> str:
    if cell.workload in fit_on:
        return "fitted on"
    return "seen" if cell.name in SEEN else "held out"


def _summary(compared: Sequence[Comparison]) -> list[tuple[float, float, float]]:
    """Return median, 90th percentile and worst of the absolute errors of time and of energy."""
    errors = np.abs([each.errors for each in compared])
    return [
        (float(np.median(one)), float(np.quantile(one, 0.9)), float(one.max())) for one in errors.T
    ]


def _figures(when: str, compared: Sequence[Comparison], promised: float) -> list[Figure]:
    if not compared:
        return []
    return [
        Figure(
            name=f"median error of simulated {what} on an H200, {when}",
            measured=100 * median,
            promised=promised,
            unit="%",
            how=f"{len(compared)} cells; 90th percentile {high:.0%}, worst {worst:.0%}",
        )
        for what, (median, high, worst) in zip(("time", "energy"), _summary(compared), strict=True)
    ]


def _print(found: Found) -> None:
    _CONSOLE.print(_cells_table(found))
    for name, reason in found.left_out.items():
        _CONSOLE.print(f"left out: {name}: {reason}")
    told = ", ".join(f"{name} x {factor:.3g}" for name, factor in found.factors.items())
    fitted_on = found.fit_on & {each.cell.workload for each in found.plain}
    _CONSOLE.print(f"Fitted on {', '.join(sorted(fitted_on))}: {told}")
    _CONSOLE.print(_summary_table(found))


def _cells_table(found: Found) -> Table:
    table = Table(title="Simulated against measured", title_justify="left", box=None)
    table.add_column("cell (* fitted on)")
    for head in ("time", "error", "fitted", "energy", "error", "fitted", "power", "simulated"):
        table.add_column(head, justify="right")
    for plain, fitted in zip(found.plain, found.fitted, strict=True):
        cell = plain.cell
        (time, energy), (fit_time, fit_energy) = plain.errors, fitted.errors
        table.add_row(
            f"{cell.name}{' *' if cell.workload in found.fit_on else ''}",
            f"{cell.time_s:.4g} s", f"{time:+.0%}", f"{fit_time:+.0%}",
            f"{cell.energy_j:.4g} J", f"{energy:+.0%}", f"{fit_energy:+.0%}",
            f"{cell.energy_j / cell.time_s:.0f} W", f"{plain.simulated.power_w:.0f} W",
        )  # fmt: skip
    return table


def _summary_table(found: Found) -> Table:
    table = Table("cells", title="Absolute errors: median / 90 % / worst", box=None)
    for head in ("n", "time", "energy", "time, fitted", "energy, fitted"):
        table.add_column(head, justify="right")
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for index, each in enumerate(found.plain):
        cell = each.cell
        for group in (
            "all",
            _role(cell, found.fit_on),
            cell.workload,
            cell.precision or "no format",
        ):
            groups[group].append(index)
    for group, indices in groups.items():
        parts = [
            f"{median:.0%} / {high:.0%} / {worst:.0%}"
            for compared in (found.plain, found.fitted)
            for median, high, worst in _summary([compared[index] for index in indices])
        ]
        table.add_row(group, str(len(indices)), *parts)
    return table


def main(config: SimulationError) -> int:
    """Compare, and print the figures, which are promised of whole tables."""
    found = compare(config)
    if not config.only:
        print_figures(found.figures)
    return 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(SimulationError, description=__doc__)))
