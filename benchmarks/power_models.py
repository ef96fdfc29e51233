"""How far power models are off on applications, GPUs and clocks that they were not shown.

Usage: python benchmarks/run.py power_models          (or ``make bench-models``)
       python benchmarks/power_models.py [--data FOLDER] [MODEL ...]

Measured tables lie in ../shared/data and are no part of the project; without them nothing is
scored. Every member and baseline is listed, those too that lose to simpler ones. Held-out
applications are measured at no clock, at the default clock, or there and at 0.6 of it; what was
measured is not scored. Regrets are those against the best measured point, which is best by luck as
well, and "smoothed", against the best of the sweep without its scatter; the last row says what a
choice that could not be better would be charged against measured points, for the scatter alone.
"""

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import get_args

import numpy as np
from figures import Figure, print_figures, share_figure
from rich.console import Console
from rich.table import Table
from smoothing import smoothed_regret
from sweep_luck import LuckScores, luck_of
from trace_recordings import LIMIT_W, simulated_traces

from joulelab.csv_table import read_csv_table
from joulelab.errors import JouleLabError
from joulelab.power_models import POWER_MODELS
from joulelab.power_models.base import PowerModel
from joulelab.power_models.calibration import SECOND_POINT
from joulelab.power_models.decision import CHOSEN_BY, Sweep, measured_sweep
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.queries import Queries, Target, profile_of, sweep
from joulelab.power_models.readers import Repeats, runs_of_rows
from joulelab.power_models.runs import Runs
from joulelab.power_models.traces import TRACE_MODELS
from joulelab.power_models.validation import COLD, MODEL, WARM, Choice, Validated, validate

_DATA = Path(__file__).parents[2] / "shared" / "data"
_PROBED = (1.0, SECOND_POINT)
_CONSOLE = Console(width=160)
_LEVEL = 0.9
_LEAST_APPLICATIONS = 11
"""A table with fewer has no intervals of that level once an application is held out."""
_SWEEP_CLOCKS = 110
_NUM_RECORDINGS = 12
_SMOOTHED_REPLAYS = 20
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
        first_run: Runs with a lower ``run_seq`` are left out: they load the model from a cold
            disk, for up to ten minutes at idle power, and were all made at the default clock.
    """

    file: str
    boards: tuple[tuple[str, str], ...]
    kinds: tuple[str, ...]
    repeats: Repeats = "refuse"
    first_run: int = 1

    def read(self, folder: Path) -> Runs:
        """Read the table."""
        rows = read_csv_table(folder / self.file)
        kept = [row for row in rows if int(row.get("run_seq", self.first_run)) >= self.first_run]
        return runs_of_rows(kept, boards=dict(self.boards), repeats=self.repeats)


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
        first_run=4,
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
        smoothed: Mean regrets against the smoothed sweeps of each, by who chose and objective.
        refused: Why it could not.
        cpu_s: Processor time that it took.
    """

    file: str
    kind: str
    model: str
    validated: tuple[Validated, ...]
    smoothed: tuple[Mapping[str, Mapping[str, float]], ...] = ()
    refused: str = ""
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How fast a member is.

    Attributes:
        model: Member.
        train_s: Time to learn power and time of the A100 study, or power over time of simulated
            recordings, intervals included.
        sweep_s: Time to predict power, or time if that takes longer, at 110 clocks for one profile;
            ``None`` for a model of traces.
    """

    model: str
    train_s: float
    sweep_s: float | None = None


def figures(folder: Path = _DATA, names: Sequence[str] = ()) -> list[Figure]:
    """Return the figures; prints every comparison on the way."""
    start_s = time.perf_counter()
    names = list(names or POWER_MODELS)
    tables = [data for data in DATA_SETS if (folder / data.file).is_file()]
    if not tables:
        _CONSOLE.print(f"No measured runs at {folder}; left out.")
        return []
    tasks = [(data, kind, name) for data in tables for name in names for kind in data.kinds]
    os.environ["OMP_NUM_THREADS"] = "1"  # the workers share the cores
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        smoothed = pool.submit(_smoothed_luck, tables[0].read(folder))
        scored = _awaited([pool.submit(_score, folder, *task) for task in tasks])
        for data in tables:
            luck = _luck(data.read(folder))
            for kind in data.kinds:
                _print_scores([s for s in scored if (s.file, s.kind) == (data.file, kind)], luck)
        speeds = pool.submit(_speeds, tables[0].read(folder), names).result()
        if set(names) == set(POWER_MODELS):
            speeds += pool.submit(_trace_speeds).result()
    _print_speeds(speeds)
    lucky = _luck(tables[0].read(folder))["edp"]
    promised = _promised(scored, lucky, smoothed.result())
    return [*promised, *_speed_figures(speeds, time.perf_counter() - start_s)]


def _awaited(tasks: Sequence[Future[Scored]]) -> list[Scored]:
    """Wait for all tasks, saying of each when it is done; results are in the order of ``tasks``."""
    start_s = time.perf_counter()
    for number, task in enumerate(as_completed(tasks), 1):
        one = task.result()
        print(
            f"[{number}/{len(tasks)}, {time.perf_counter() - start_s:.0f} s] "
            f"{one.model}, {one.file}, {one.kind}: {one.cpu_s:.1f} s of processor time",
            file=sys.stderr,
            flush=True,
        )
    return [task.result() for task in tasks]


def _score(folder: Path, data: DataSet, kind: str, name: str) -> Scored:
    start_s = time.process_time()
    found, refused, runs = [], "", data.read(folder)
    try:
        found = _validated(name, runs, kind)
    except JouleLabError as error:
        refused = str(error)
    return Scored(
        file=data.file,
        kind=kind,
        model=name,
        validated=tuple(found),
        smoothed=tuple(_smoothed_regrets(runs, each.choices) for each in found),
        refused=refused,
        cpu_s=time.process_time() - start_s,
    )


def _smoothed_regrets(runs: Runs, choices: Sequence[Choice]) -> Mapping[str, Mapping[str, float]]:
    """Return mean regrets against the smoothed sweeps, by who chose and objective."""
    found: dict[str, dict[str, list[float]]] = {}
    for each in choices:
        measured = measured_sweep(runs.select(runs.of_pair(each.gpu, each.application)))
        lost = smoothed_regret(measured, each.sm_clock_mhz, each.objective)
        found.setdefault(each.who, {}).setdefault(each.objective, []).append(lost)
    return {who: {n: float(np.mean(v)) for n, v in each.items()} for who, each in found.items()}


def _validated(name: str, runs: Runs, kind: str) -> list[Validated]:
    member = POWER_MODELS[name]
    wide = kind == "application" and len(set(runs.application)) >= _LEAST_APPLICATIONS
    folds = 5 if wide else 0
    return validate(
        lambda: OperatingModel(
            power=member("power_w", calibration_folds=folds),
            time=member("time_s", calibration_folds=folds),
        ),
        runs,
        kind,
        anchors=[COLD] if kind == "clocks" else [COLD, WARM, _PROBED],
        level=_LEVEL if wide else None,
    )


def _speeds(runs: Runs, names: Sequence[str]) -> list[Speed]:
    asked = profile_of(runs, *runs.pairs[0])
    clocks_mhz = sorted(asked.spec.sm_clocks_mhz)
    queries = sweep(asked, np.linspace(clocks_mhz[0], clocks_mhz[-1], _SWEEP_CLOCKS).tolist())
    found = []
    for name in names:
        members = [POWER_MODELS[name](target) for target in get_args(Target)]
        start_s = time.perf_counter()
        models = [member.fit(runs) for member in members]
        train_s = time.perf_counter() - start_s
        sweep_s = max(_sweep_s(model, queries) for model in models)
        found.append(Speed(model=name, train_s=train_s, sweep_s=sweep_s))
    return found


def _trace_speeds() -> list[Speed]:
    recordings = simulated_traces(_NUM_RECORDINGS)
    found = []
    for name in TRACE_MODELS:
        model = TRACE_MODELS[name](power_limit_w=LIMIT_W)
        start_s = time.perf_counter()
        model.fit(recordings)
        found.append(Speed(model=name, train_s=time.perf_counter() - start_s))
    return found


def _sweep_s(model: PowerModel, queries: Queries) -> float:
    """Return the median time of some predictions, after one that is not counted."""
    model.predict(queries)
    durations = []
    for _ in range(15):
        start_s = time.perf_counter()
        model.predict(queries)
        durations.append(time.perf_counter() - start_s)
    return float(np.median(durations))


def _print_speeds(speeds: Sequence[Speed]) -> None:
    title = f"Time to learn and to predict a sweep of {_SWEEP_CLOCKS} clocks"
    table = Table("model", "train", "sweep", title=title)
    for speed in speeds:
        sweep = "" if speed.sweep_s is None else f"{1e3 * speed.sweep_s:.2f} ms"
        table.add_row(speed.model, f"{speed.train_s:.2f} s", sweep)
    _CONSOLE.print(table)


def _luck(runs: Runs) -> dict[str, LuckScores]:
    sweeps = _sweeps(runs)
    return {name: luck_of(sweeps, name) for name in CHOSEN_BY}


def _smoothed_luck(runs: Runs) -> LuckScores:
    return luck_of(_sweeps(runs), "edp", replays=_SMOOTHED_REPLAYS, is_smoothed=True)


def _sweeps(runs: Runs) -> list[Sweep]:
    return [measured_sweep(runs.select(rows)) for _, rows in runs.by_pair()]


def _print_scores(scored: Sequence[Scored], luck: dict[str, LuckScores]) -> None:
    first = scored[0]
    columns = ("model", "measured at", "power", "median", "worst", "P95", "time", "worst", "energy")
    table = Table(
        *columns,
        *("regret\nenergy", "\nEDP", "\nED2P"),
        *("smoothed\nenergy", "\nEDP", "\nED2P", "coverage", "+-"),
        title=f"{first.file}, held out: {first.kind}",
    )
    for one in scored:
        for each, smoothed in zip(one.validated, one.smoothed, strict=True):
            table.add_row(one.model, *_cells(each, smoothed))
    first = next((one for one in scored if one.validated), None)
    if first:
        measured = first.validated
        for who, regrets in measured[0].baselines.items():
            cells = [_percent(regrets[name].mean) for name in CHOSEN_BY]
            cells += [_percent(first.smoothed[0][who][name]) for name in CHOSEN_BY]
            table.add_row(who, "", *[""] * 7, *cells)
        if measured[0].baselines:
            expected = [_percent(luck[name].mean) for name in CHOSEN_BY]
            table.add_row("true curves, expected", "", *[""] * 7, *expected)
    _CONSOLE.print(table)
    for one in scored:
        if one.refused:
            _CONSOLE.print(f"  {one.model}: {one.refused}", highlight=False)


def _cells(each: Validated, smoothed: Mapping[str, Mapping[str, float]]) -> list[str]:
    power, duration = each.errors["power_w"], each.errors["time_s"]
    interval = each.intervals.get("power_w")
    return [
        ", ".join(f"{anchor:g}" for anchor in each.anchors) or "-",
        *(_percent(v) for v in (power.mean, power.median_application, power.worst_application)),
        _percent(power.p95),
        *(_percent(v) for v in (duration.mean, duration.worst_application)),
        _percent(each.errors["energy_j"].mean),
        *(_percent(each.regrets[n].mean) if each.regrets else "" for n in CHOSEN_BY),
        *(_percent(smoothed[MODEL][n]) if smoothed else "" for n in CHOSEN_BY),
        "" if interval is None else f"{interval.coverage:.2f}",
        "" if interval is None else _percent(interval.half_width),
    ]


def _promised(scored: Sequence[Scored], lucky: LuckScores, smoothed: LuckScores) -> list[Figure]:
    found = {(one.file, one.kind, one.model): one for one in scored}
    measured = found.get(("a100_hpc_dvfs.csv", "application", _MODEL))
    if measured is None or len(measured.validated) != 3:
        return []
    _, warm, probed = measured.validated
    once, twice = (each[MODEL]["edp"] for each in measured.smoothed[1:])
    how = f"{_MODEL}, A100, 21 applications, each held out, which the catalogue has seen"
    both = f"{how}; measured at the default clock and {SECOND_POINT:g} of it"
    how += "; measured at the default clock"
    luckiest = f"against the luckiest measured point, scatter included: {_expected(lucky)}"
    least = _expected(smoothed)
    power, duration = warm.errors["power_w"], warm.errors["time_s"]
    figures = [
        share_figure("power of an unseen application", power.mean, 4.5, how),
        share_figure(f"the same, worst ({power.worst_name})", power.worst_application, 15.0, how),
        share_figure("time of an unseen application", duration.mean, 6.0, how),
        share_figure("EDP regret of the chosen clock", warm.regrets["edp"].mean, 2.5, luckiest),
        share_figure("the same on smoothed sweeps", once, 2.5, least),
        share_figure("power from two measured points", probed.errors["power_w"].mean, 1.5, both),
        share_figure(
            "EDP regret from two measured points", probed.regrets["edp"].mean, 0.6, luckiest
        ),
        share_figure("the same on smoothed sweeps", twice, 0.6, least),
    ]
    interval = warm.intervals.get("power_w")
    if interval is not None:
        missed = abs(interval.coverage - 0.915)
        figures += [
            share_figure("half width of 90 % intervals of power", interval.half_width, 12.0, how),
            share_figure(
                f"their coverage, {interval.coverage:.3f}, off 0.915", missed, 3.5, f"{how}"
            ),
        ]
    return figures


def _expected(luck: LuckScores) -> str:
    within = f"90 %: {_percent(luck.lower)} to {_percent(luck.upper)}"
    return f"{_percent(luck.mean)} ({within}) is expected of choices by the true curves"


def _speed_figures(speeds: Sequence[Speed], whole_s: float) -> list[Figure]:
    sweeps = {s.model: s.sweep_s for s in speeds if s.sweep_s is not None}
    slowest = max(sweeps, key=lambda name: sweeps[name])
    longest = max(speeds, key=lambda speed: speed.train_s)
    return [
        Figure(
            name=f"training {len(speeds)} members, one after the other",
            measured=sum(speed.train_s for speed in speeds),
            promised=180.0,
            unit="s",
            how="power and time of the A100 study, traces of simulated boards, intervals included; "
            f"{longest.model} takes longest, {longest.train_s:.1f} s",
        ),
        Figure(
            name="predicting a sweep, slowest member",
            measured=1e3 * sweeps[slowest],
            promised=5.0,
            unit="ms",
            how=f"{slowest}; {_SWEEP_CLOCKS} clocks, median of 15",
        ),
        Figure(
            name=f"this comparison of {len(speeds)} members",
            measured=whole_s / 60.0,
            promised=10.0,
            unit="min",
            how="on two cores",
        ),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=_DATA, help="folder of measured tables")
    parser.add_argument("models", nargs="*", help="members; by default all")
    chosen = parser.parse_args()
    print_figures(figures(chosen.data, chosen.models))
