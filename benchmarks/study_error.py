#!/usr/bin/env python
"""How far the simulated H200 is from studies of knobs on real ones, which no coefficient has seen.

Usage: python benchmarks/run.py study_error
       python benchmarks/study_error.py [--studies FOLDER ...]

Reads what studies measured on real GPUs at the driver's own clocks, and asks the simulated board
for every combination and phase.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tyro
from figures import Figure, print_figures
from rich.console import Console
from rich.table import Table
from simulation_error import Cell, Comparison, simulate

from joulelab.analysis.compared import Figures
from joulelab.analysis.knob_grid import LOG, Case, read_knob_log
from joulelab.analysis.knob_study import KnobPhase, analyse_knobs
from joulelab.errors import ConfigError
from joulelab.hardware.catalogue import spec_for
from joulelab.tracking.store import ResultStore
from joulelab.workloads import WORKLOADS
from joulelab.workloads.disk_cache import cached_cost

RESULTS = Path(__file__).parents[1] / "experiments" / "results" / "h200_studies"
SEEN = (("diffusion", "vae"),)
"""Workloads and phases of which a cell told a constant of the board."""
_PROMISED = 20.0
_CONSOLE = Console(width=120)


@dataclass(frozen=True, kw_only=True)
class StudyError:
    """Compare the simulated GPU with studies on real ones.

    Attributes:
        studies: Results folders of studies of knobs; by default those of the project.
    """

    studies: tuple[Path, ...] = ()


def figures(config: StudyError | None = None) -> list[Figure]:
    """Return the figures; prints every study on the way."""
    given = config.studies if config else ()
    folders = given or tuple(sorted(path.parent for path in RESULTS.glob(f"*/{LOG}")))
    found = {folder.name: compare(folder) for folder in folders}
    _CONSOLE.print(_table(found))
    return _figures([each for compared in found.values() for each in compared])


def compare(folder: Path) -> list[Comparison]:
    """Ask the simulated board for all that a study has measured.

    Costs are traced once and kept on disk.

    Raises:
        ConfigError: If its GPU is not in the catalogue.
        TrackingError: If the folder holds no study of knobs.
    """
    store = ResultStore(folder)
    grid = replace(read_knob_log(store).study.grid, whole="")  # phases alone, not their sum
    phases = analyse_knobs(store.read(), grid).phases
    spec = spec_for(phases[0].device_name)
    if spec is None:
        raise ConfigError(f"{folder} is of a {phases[0].device_name!r}, not in the catalogue.")
    return simulate(spec, [cell for phase in phases for cell in _cells(phase)])


def _cells(phase: KnobPhase) -> list[Cell]:
    if (phase.workload, phase.phase) in SEEN:
        return []
    return [_cell(phase, row.case, figures) for row, figures in phase.measured]


def _cell(phase: KnobPhase, case: Case, figures: Figures) -> Cell:
    knobs = dict(case.configuration.knobs) if case.configuration is not None else {}
    cost = cached_cost(WORKLOADS[phase.workload].from_knobs(knobs))
    return Cell(
        name=f"{case.label} {phase.phase}",
        workload=phase.workload,
        precision=str(knobs.get("precision", "")),
        time_s=figures.time_per_unit_s,
        energy_j=figures.energy_per_unit_j,
        phase=cost.phase(phase.phase),
        data=cost.data,
    )


def _figures(compared: Sequence[Comparison]) -> list[Figure]:
    if not compared:
        _CONSOLE.print(f"No study in {RESULTS}; left out.")
        return []
    return [
        Figure(
            name=f"median error of simulated {what} in studies on H200s, unseen",
            measured=100 * float(np.median(errors)),
            promised=_PROMISED,
            unit="%",
            how=f"{len(errors)} cells; 90th percentile {np.quantile(errors, 0.9):.0%}, "
            f"worst {errors.max():.0%}",
        )
        for what, errors in zip(("time", "energy"), _errors(compared), strict=True)
    ]


def _errors(compared: Sequence[Comparison]) -> np.ndarray:
    """Return absolute relative errors of time and of energy, shape ``(2, n)``."""
    return np.abs([each.errors for each in compared]).T


def _table(found: Mapping[str, Sequence[Comparison]]) -> Table:
    table = Table("study", title="Absolute errors: median / worst", title_justify="left", box=None)
    for head in ("n", "time", "energy", "worst energy"):
        table.add_column(head, justify="right")
    for name, compared in found.items():
        if not compared:
            continue
        time, energy = _errors(compared)
        worst = compared[int(energy.argmax())]
        table.add_row(
            name, str(len(compared)), f"{np.median(time):.0%} / {time.max():.0%}",
            f"{np.median(energy):.0%} / {energy.max():.0%}",
            f"{worst.cell.name} {worst.errors[1]:+.0%}",
        )  # fmt: skip
    return table


if __name__ == "__main__":
    print_figures(figures(tyro.cli(StudyError, description=__doc__)))
