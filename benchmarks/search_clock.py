#!/usr/bin/env python
"""How far off the clock is that three measured clocks lead to.

Usage: python benchmarks/search_clock.py [--seeds 20] [--ahead 1] [--redraws 0] [--data FOLDER]

Simulated GPUs of the catalogue follow a law of the kind that the model-guided search assumes, with
figures that it starts from, so they show what noise and few trials cost. Sweeps that were measured
show what the law misses. These lie in ../shared/data and are no part of the project; each of their
clocks was measured once, so the regret is that over the smoothed sweep. How much of a figure is
luck shows when the scatter around the smoothed sweeps is drawn again.

No law leads to the best clock of the A40's forward stages: from 1050 to 1080 MHz their time grows
by a tenth. Two boards show it at the same clocks (what is left of their times by the smoothed
sweeps correlates by 0.97) and the backward stages of the same boards do not (0.00).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import tyro
from figures import Figure, print_figures, share_figure
from rich.console import Console
from rich.table import Table
from search_surface import Surface, reading, surface_of
from smoothing import smoothed_logs

from joulelab.core.configuration import Configuration, KnobValue
from joulelab.csv_table import read_csv_table
from joulelab.hardware import GpuSpec
from joulelab.hardware.catalogue import GPUS
from joulelab.objectives import OBJECTIVES
from joulelab.power_models.runs import NEAR_CAP
from joulelab.searching.base import Outcome
from joulelab.searching.evidence import Problem
from joulelab.searching.space import SearchSpace
from joulelab.searching.strategies.model_guided import ModelGuided

_DATA = Path(__file__).parents[2] / "shared" / "data"
_NUM_PROBES = 3
_HELD_SHARE = 1.0 - NEAR_CAP
"""Share of its limit from which on a recorded board is taken to be held at it. A driver would say
so; the A40 shows it by 291 to 297 W of 300 W wherever its clock should be above 1550 MHz."""
_BOARDS = ("v100_sxm2", "a100_sxm", "h100_sxm", "h200_sxm", "a40", "l4", "rtx_4090")
_WORKLOADS: tuple[tuple[str, Mapping[str, KnobValue]], ...] = (
    ("vit", {"batch": 1, "precision": "fp16"}),
    ("vit", {"batch": 16, "precision": "fp16"}),
    ("resnet50", {"batch": 64, "precision": "fp16"}),
    ("bert", {"batch": 8, "precision": "fp16"}),
    ("lstm", {"precision": "fp16"}),
    ("llama", {"model": "llama-7b", "precision": "fp16", "batch": 4}),
    ("gemm", {"precision": "fp16"}),
    ("stream", {}),
)
_CONSOLE = Console(width=120)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Search the clock axis alone.

    Attributes:
        seeds: How often each simulated sweep is searched.
        ahead: Trials that are asked for while one is measured, as a study does.
        redraws: How often the scatter of each recorded sweep is drawn again.
        data: Folder of the recorded sweeps.
    """

    seeds: int = 20
    ahead: int = 1
    redraws: int = 0
    data: Path = _DATA


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A sweep that was recorded.

    Attributes:
        name: Of its application.
        clocks_mhz: Ascending.
        energy_j: At each clock.
        time_s: At each clock.
    """

    name: str
    clocks_mhz: tuple[int, ...]
    energy_j: np.ndarray
    time_s: np.ndarray


def figures(settings: Settings | None = None) -> list[Figure]:
    """Return the figures; prints every sweep on the way."""
    settings = settings or Settings()
    found = _simulated(settings)
    if (path := settings.data / "a100_hpc_dvfs.csv").is_file():
        found += _of_file("A100", list(_sweeps(path, {})), GPUS["a100_sxm"], settings)
    if (path := settings.data / "llm_stage_dvfs.csv").is_file():
        for name, board in (("A100", "a100_sxm"), ("A40", "a40")):
            sweeps = list(_sweeps(path, {"gpu": name}))
            title = f"{name}, stages of language models"
            found += _of_file(title, sweeps, GPUS[board], settings)
    return found


def _simulated(settings: Settings) -> list[Figure]:
    table = Table("GPU", *(f"{name} {knobs.get('batch', '')}" for name, knobs in _WORKLOADS))
    table.title = "EDP regret after three clocks, simulated; worst seed"
    every: list[float] = []
    for board in _BOARDS:
        rows = [_of_board(GPUS[board], *each, settings) for each in _WORKLOADS]
        table.add_row(board, *(f"{max(row):.2%}" for row in rows))
        every += [regret for row in rows for regret in row]
    _CONSOLE.print(table)
    parts = f"{len(_BOARDS)} GPUs x {len(_WORKLOADS)} workloads x {settings.seeds}"
    how = f"{len(every)} searches: {parts}"
    return [
        share_figure(
            "EDP regret on the clock axis, simulated, mean", float(np.mean(every)), 1.0, how
        ),
        share_figure("the same, p95", float(np.quantile(every, 0.95)), 4.0, how),
    ]


def _of_board(
    spec: GpuSpec, workload: str, knobs: Mapping[str, KnobValue], settings: Settings
) -> list[float]:
    space = SearchSpace(workload, {"sm_clock_mhz": spec.study_clocks_mhz}, knobs=knobs)
    surface = surface_of(space, spec)
    regrets = surface.regret[1:] - surface.regret[1:].min()
    found = []
    for seed in range(settings.seeds):
        measure = partial(_simulated_outcome, surface, space, np.random.default_rng(seed))
        strategy = ModelGuided(Problem(space=space, objective=OBJECTIVES["edp"], gpu=spec))
        _probe(strategy, measure, settings.ahead)
        found.append(float(np.expm1(regrets[_chosen(strategy)])))
    return found


def _simulated_outcome(
    surface: Surface, space: SearchSpace, random: np.random.Generator, asked: Configuration
) -> Outcome:
    return surface.outcome(space.index(asked), random)


def _probe(strategy: ModelGuided, measure: Callable[[Configuration], Outcome], ahead: int) -> None:
    """Have the clocks measured that are asked for, in their order."""
    waiting: list[Configuration] = []
    for number in range(_NUM_PROBES + ahead):
        if number < _NUM_PROBES and (asked := strategy.ask()) is not None:
            waiting.append(asked)
        if number >= ahead and waiting:
            strategy.tell(measure(waiting.pop(0)))


def _of_file(title: str, sweeps: list[Sweep], spec: GpuSpec, settings: Settings) -> list[Figure]:
    found = _recorded(title, sweeps, spec, settings.ahead)
    return found + _redrawn(title, sweeps, spec, settings) if settings.redraws else found


def _redrawn(title: str, sweeps: list[Sweep], spec: GpuSpec, settings: Settings) -> list[Figure]:
    """Return the regrets where the scatter of each sweep is drawn again."""
    regrets = []
    for sweep in sweeps:
        edp = _smoothed(sweep.clocks_mhz, np.log(sweep.energy_j * sweep.time_s))
        for seed in range(settings.redraws):
            chosen = _three_probes(_drawn_again(sweep, seed), spec, settings.ahead)
            regrets.append(float(np.expm1(edp[chosen] - edp.min())))
    how = f"{title}, {len(sweeps)} applications x {settings.redraws}"
    return [
        share_figure("EDP regret, scatter drawn again, mean", float(np.mean(regrets)), 1.0, how),
        share_figure("the same, p95", float(np.quantile(regrets, 0.95)), 4.0, how),
    ]


def _drawn_again(sweep: Sweep, seed: int) -> Sweep:
    """Return the smoothed sweep with errors as far apart, and as much in common, as its own."""
    logs = np.log([sweep.energy_j, sweep.time_s])
    smooth = np.array([_smoothed(sweep.clocks_mhz, each) for each in logs])
    random, spread = np.random.default_rng(seed), np.cov(logs - smooth)
    errors = random.multivariate_normal(np.zeros(2), spread, len(sweep.clocks_mhz)).T
    energy_j, time_s = np.exp(smooth + errors)
    return replace(sweep, energy_j=energy_j, time_s=time_s)


def _recorded(title: str, sweeps: list[Sweep], spec: GpuSpec, ahead: int) -> list[Figure]:
    table = Table("application", "chosen", "EDP regret", "smoothed", "scatter", title=title)
    raws, smooths = [], []
    for sweep in sweeps:
        chosen = _three_probes(sweep, spec, ahead)
        edp = np.log(sweep.energy_j * sweep.time_s)
        smooth = _smoothed(sweep.clocks_mhz, edp)
        raw, regret = (float(np.expm1(each[chosen] - each.min())) for each in (edp, smooth))
        raws.append(raw)
        smooths.append(regret)
        cells = (f"{each:.2%}" for each in (raw, regret, float(np.std(edp - smooth))))
        table.add_row(sweep.name, f"{sweep.clocks_mhz[chosen]} MHz", *cells)
    _CONSOLE.print(table)
    how = f"{title}, {len(sweeps)} applications, {_NUM_PROBES} clocks measured once"
    alike = f"{how}; regret over the smoothed sweep"
    return [
        share_figure("EDP regret on the clock axis, mean", float(np.mean(smooths)), 1.0, alike),
        share_figure("the same, p95", float(np.quantile(smooths, 0.95)), 4.0, alike),
    ]


def _three_probes(sweep: Sweep, spec: GpuSpec, ahead: int) -> int:
    """Return the place of the clock that is chosen; readings are told with their scatter."""
    space = SearchSpace("recorded", {"sm_clock_mhz": sweep.clocks_mhz}, knobs={"app": sweep.name})
    strategy = ModelGuided(Problem(space=space, objective=OBJECTIVES["edp"], gpu=spec))
    held_w = _HELD_SHARE * spec.default_power_limit_w
    _probe(strategy, partial(_recorded_outcome, sweep, _scatter(sweep), held_w), ahead)
    return _chosen(strategy)


def _recorded_outcome(
    sweep: Sweep, scatter: tuple[float, float], held_w: float, asked: Configuration
) -> Outcome:
    at = sweep.clocks_mhz.index(asked.point.sm_clock_mhz or sweep.clocks_mhz[-1])
    figures = reading(float(sweep.energy_j[at]), float(sweep.time_s[at]), *scatter)
    return Outcome(candidate=asked, figures=figures, capped=figures.power_w > held_w)


def _chosen(strategy: ModelGuided) -> int:
    """Return the place of the clock of least expected cost, the default left out."""
    return int(np.argmin(strategy.forecast().log_cost[1:]))


def _sweeps(path: Path, wanted: Mapping[str, str]) -> Iterator[Sweep]:
    """Yield each application of a file, of rows that start with the values in ``wanted``."""
    found: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for row in read_csv_table(path):
        values = [float(row[name] or "nan") for name in ("sm_clock_mhz", "power_w", "time_s")]
        is_wanted = all(row[name].startswith(value) for name, value in wanted.items())
        if is_wanted and all(value > 0 for value in values):
            found[row["app"]].append((values[0], values[1], values[2]))
    for name, points in found.items():
        clocks, power_w, time_s = np.array(sorted(points)).T
        yield Sweep(
            name=name,
            clocks_mhz=tuple(int(clock) for clock in clocks),
            energy_j=power_w * time_s,
            time_s=time_s,
        )


def _scatter(sweep: Sweep) -> tuple[float, float]:
    """Return by how much readings of energy and time scatter around the smoothed ones."""
    logs = (np.log(sweep.energy_j), np.log(sweep.time_s))
    energy, time = (float(np.std(each - _smoothed(sweep.clocks_mhz, each))) for each in logs)
    return energy, time


def _smoothed(clocks_mhz: tuple[int, ...], values: np.ndarray) -> np.ndarray:
    return smoothed_logs(np.array(clocks_mhz, dtype=float), values)


if __name__ == "__main__":
    print_figures(figures(tyro.cli(Settings)))
