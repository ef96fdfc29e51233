"""How far power models are off on applications, GPUs and clocks that they were not shown.

Usage: python benchmarks/run.py power_models          (or ``make bench-models``)
       python benchmarks/power_models.py [--data FOLDER] [MODEL ...]

Measured tables lie in ../shared/data and are no part of the project; without them nothing is
scored. Every member and baseline is told, those too that lose to simpler ones. Held-out
applications are measured at no clock, at the default clock, or there and at 0.7 of it; what was
measured is not scored.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from figures import Figure, print_figures
from rich.console import Console
from rich.table import Table

from joulelab.errors import JouleLabError
from joulelab.power_models import POWER_MODELS
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.queries import profile_of, sweep
from joulelab.power_models.readers import Repeats, read_csv
from joulelab.power_models.runs import Runs
from joulelab.power_models.validation import COLD, WARM, Validated, validate

_DATA = Path(__file__).parents[2] / "shared" / "data"
_PROBED = (1.0, 0.7)
_CONSOLE = Console(width=150)
_CHEAP_S = 0.5
"""A member that learns power in less processor time gets its intervals scored, which takes six
times as many fits; of the others none are told."""
_MODEL = "physics"
"""Whose figures are promised. Its form was chosen with these tables in view; others will tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A measured table.

    Attributes:
        file: Its name.
        boards: Which GPU of the catalogue each label is.
        repeats: How repeats are averaged.
        kinds: What is held out of it.
    """

    file: str
    boards: tuple[tuple[str, str], ...]
    kinds: tuple[str, ...]
    repeats: Repeats = "refuse"

    def read(self, folder: Path) -> Runs:
        """Read the table."""
        return read_csv(folder / self.file, boards=dict(self.boards), repeats=self.repeats)


DATA_SETS = (
    DataSet(
        file="a100_hpc_dvfs.csv",
        boards=(("A100(GA100)", "a100_sxm"),),
        kinds=("application", "clocks"),
    ),
    DataSet(
        file="llm_stage_dvfs.csv",
        boards=(("A100-SXM4-80GB", "a100_sxm"), ("A40", "a40")),
        kinds=("application", "gpu"),
    ),
    DataSet(
        file="inference_dvfs_runs.csv",
        boards=(("A100", "a100_pcie"), ("H100", "h100_nvl"), ("V100", "v100_pcie")),
        kinds=("application", "gpu"),
        repeats="median",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What one member scored on one table with one kind of split.

    Attributes:
        file: Table.
        kind: What was held out.
        model: Member.
        validated: One entry per choice of anchors; empty if it could not learn.
        refused: Why it could not.
    """

    file: str
    kind: str
    model: str
    validated: tuple[Validated, ...]
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How fast a member is.

    Attributes:
        model: Member.
        train_s: Time to learn power and time of the A100 study, intervals included.
        sweep_s: Time to predict power at all clocks of a GPU for one profile.
    """

    model: str
    train_s: float
    sweep_s: float


def figures(folder: Path = _DATA, names: Sequence[str] = ()) -> list[Figure]:
    """Return the figures; prints every comparison on the way."""
    names = list(names or POWER_MODELS)
    tables = [data for data in DATA_SETS if (folder / data.file).is_file()]
    if not tables:
        _CONSOLE.print(f"No measured runs at {folder}; left out.")
        return []
    tasks = [(data, kind, name) for data in tables for name in names for kind in data.kinds]
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the workers share the cores
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        scored = [_told(each) for each in pool.map(partial(_score, folder), tasks)]
    for data in tables:
        for kind in data.kinds:
            _print_scores([s for s in scored if (s.file, s.kind) == (data.file, kind)])
    speeds = _speeds(tables[0].read(folder), names)
    return [*_promised(scored), *_speed_figures(speeds)]


def _told(one: Scored) -> Scored:
    print(f"{one.model}, {one.file}, {one.kind} ...", file=sys.stderr, flush=True)
    return one


def _score(folder: Path, task: tuple[DataSet, str, str]) -> Scored:
    data, kind, name = task
    member, runs = POWER_MODELS[name], data.read(folder)
    try:
        level = None if kind != "application" or not _is_cheap(name, runs) else 0.9
        folds = {"calibration_folds": 5 if level else 0}
        found = _validated(
            lambda: OperatingModel(
                power=member("power_w", **folds), time=member("time_s", **folds)
            ),
            runs,
            kind,
            level,
        )
        return Scored(file=data.file, kind=kind, model=name, validated=found)
    except JouleLabError as error:
        return Scored(file=data.file, kind=kind, model=name, validated=(), refused=str(error))


def _validated(
    make: Callable[[], OperatingModel], runs: Runs, kind: str, level: float | None
) -> tuple[Validated, ...]:
    anchors = [COLD, WARM, _PROBED] if kind != "clocks" else [COLD]
    try:
        return tuple(validate(make, runs, kind, anchors=anchors, level=level))
    except JouleLabError:
        if level is None:
            raise
        return tuple(validate(make, runs, kind, anchors=anchors, level=None))


def _is_cheap(name: str, runs: Runs) -> bool:
    start_s = time.process_time()
    POWER_MODELS[name]("power_w", calibration_folds=0).fit(runs)
    return time.process_time() - start_s < _CHEAP_S


def _speeds(runs: Runs, names: Sequence[str]) -> list[Speed]:
    found = []
    for name in names:
        member = POWER_MODELS[name]
        start_s = time.perf_counter()
        model = member("power_w").fit(runs)
        member("time_s").fit(runs)
        train_s = time.perf_counter() - start_s
        asked = sweep(profile_of(runs, *runs.pairs[0]))
        durations = []
        for _ in range(7):
            start_s = time.perf_counter()
            model.predict(asked)
            durations.append(time.perf_counter() - start_s)
        found.append(Speed(model=name, train_s=train_s, sweep_s=float(np.median(durations))))
    table = Table("model", "train", "sweep", title="Time to learn and to predict a sweep")
    for speed in found:
        table.add_row(speed.model, f"{speed.train_s:.2f} s", f"{1e3 * speed.sweep_s:.2f} ms")
    _CONSOLE.print(table)
    return found


def _print_scores(scored: Sequence[Scored]) -> None:
    first = scored[0]
    columns = ("model", "measured at", "power", "median", "worst", "P95", "time", "worst", "energy")
    table = Table(
        *columns,
        *("regret energy", "EDP", "ED2P", "coverage", "+-"),
        title=f"{first.file}, held out: {first.kind}",
    )
    for one in scored:
        for each in one.validated:
            table.add_row(one.model, *_cells(each))
    told = next((one.validated for one in scored if one.validated), None)
    if told:
        for who, regrets in told[0].baselines.items():
            cells = [_percent(regrets[goal].mean) for goal in ("energy_j", "edp_js", "ed2p_js2")]
            table.add_row(who, "", *[""] * 7, *cells)
    _CONSOLE.print(table)
    for one in scored:
        if one.refused:
            _CONSOLE.print(f"  {one.model}: {one.refused}", highlight=False)


def _cells(each: Validated) -> list[str]:
    power, duration = each.errors["power_w"], each.errors["time_s"]
    interval = each.intervals.get("power_w")
    return [
        ", ".join(f"{anchor:g}" for anchor in each.anchors) or "-",
        *(_percent(v) for v in (power.mean, power.median_application, power.worst_application)),
        _percent(power.p95),
        *(_percent(v) for v in (duration.mean, duration.worst_application)),
        _percent(each.errors["energy_j"].mean),
        *(
            _percent(each.regrets[goal].mean) if goal in each.regrets else ""
            for goal in ("energy_j", "edp_js", "ed2p_js2")
        ),
        "" if interval is None else f"{interval.coverage:.2f}",
        "" if interval is None else _percent(interval.half_width),
    ]


def _promised(scored: Sequence[Scored]) -> list[Figure]:
    found = {(one.file, one.kind, one.model): one.validated for one in scored}
    told = found.get(("a100_hpc_dvfs.csv", "application", _MODEL), ())
    if len(told) != 3:
        return []
    _, warm, probed = told
    how = f"{_MODEL}, A100, 21 applications, each held out; measured at the default clock"
    both = f"{_MODEL}, A100; measured at the default clock and 0.7 of it"
    power, duration = warm.errors["power_w"], warm.errors["time_s"]
    figures = [
        _error("power of an unseen application", power.mean, 4.5, how),
        _error(f"the same, worst ({power.worst_name})", power.worst_application, 15.0, how),
        _error("time of an unseen application", duration.mean, 6.0, how),
        _error("EDP regret of the chosen clock", warm.regrets["edp_js"].mean, 2.5, how),
        _error("power from two measured points", probed.errors["power_w"].mean, 1.5, both),
        _error("EDP regret from two measured points", probed.regrets["edp_js"].mean, 0.6, both),
    ]
    interval = warm.intervals.get("power_w")
    if interval is not None:
        missed = abs(interval.coverage - 0.915)
        figures += [
            _error("half width of 90 % intervals of power", interval.half_width, 12.0, how),
            _error(f"their coverage, {interval.coverage:.3f}, off 0.915", missed, 3.5, f"{how}"),
        ]
    return figures


def _speed_figures(speeds: Sequence[Speed]) -> list[Figure]:
    others = [speed for speed in speeds if speed.model != "bayesian"]
    slowest = max(others, key=lambda speed: speed.sweep_s)
    return [
        Figure(
            name="training every member, one after the other",
            measured=sum(speed.train_s for speed in speeds),
            promised=180.0,
            unit="s",
            how="power and time of the A100 study, intervals included",
        ),
        Figure(
            name="predicting a sweep, slowest member",
            measured=1e3 * slowest.sweep_s,
            promised=5.0,
            unit="ms",
            how=f"{slowest.model}; all clocks of an A100, median of 7",
        ),
    ]


def _error(name: str, share: float, promised: float, how: str) -> Figure:
    return Figure(name=name, measured=100 * share, promised=promised, unit="%", how=how)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=_DATA, help="folder of measured tables")
    parser.add_argument("models", nargs="*", help="members; by default all")
    chosen = parser.parse_args()
    print_figures(figures(chosen.data, chosen.models))
