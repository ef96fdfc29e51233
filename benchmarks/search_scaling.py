#!/usr/bin/env python
"""How many trials sweeps and searches get through on 1 to 64 GPUs of 8 nodes, all on one machine.

Usage: python benchmarks/search_scaling.py [--gpus 1 8 64] [--trial-s 4] [--no-searches]

GPUs are simulated and take wall time, so that what is seen is not how fast they are computed: a
trial takes 0.1 to 0.2 s of a core, that of all other processes included, and waits for the rest.
Driver, Ray's nodes, actors, Tune's processes and one clock guard share the machine's cores. Rates
are those of the time in which all GPUs are at work, and are compared with the rate of one GPU; CPU
use is that of all processes of the benchmark, the driver's own apart.
"""

import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psutil
import tyro
from cluster_nodes import nodes
from cluster_study import cluster_study
from figures import Figure, print_figures
from paced_device import paced
from rich.console import Console
from rich.table import Table
from typing_extensions import override

from joulelab import Configuration, OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.errors import GuardError
from joulelab.guard import GuardClient
from joulelab.hardware.catalogue import GPUS
from joulelab.objectives import OBJECTIVES
from joulelab.searching.base import Outcome, Strategy
from joulelab.searching.evidence import Problem
from joulelab.searching.space import SearchSpace
from joulelab.searching.strategies.listed import Random
from joulelab.study.events import DeviceReady, StudyEvent, TrialMeasured
from joulelab.study.run import run_asked, run_trials
from joulelab.study.search_queue import Search
from joulelab_actors.placement import Site, simulated_sites

GPU = "a100_sxm"
NUM_NODES = 8
VIRTUAL_S = 20.0
"""Virtual time of a trial of this procedure, about."""
PROCEDURE = Procedure(
    idle_s=1.0, settle_s=0.2, warmup_min_s=1.0, warmup_max_s=60.0, window_s=1.0, limit_s=10.0
)
NUM_SIZES = 40
LINEAR = 0.8
BUSY = 0.9
"""Share of the machine's cores in use from which on they are the limit."""

Kind = Literal["sweep", "search"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the benchmark.

    Attributes:
        gpus: Numbers of GPUs, from the fewest on.
        trial_s: Wall time of a trial, about.
        window_s: For how long is counted.
        searches: Whether to look at searches as well as at sweeps.
    """

    gpus: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    trial_s: float = 4.0
    window_s: float = 40.0
    searches: bool = True


class EnoughError(Exception):
    """Ends a sweep from within."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What was seen of one study.

    Attributes:
        kind: What it was.
        num_gpus: GPUs.
        trial_s: Mean time from the end of a trial of a GPU to the end of its next.
        gap_s: Mean of the part of it in which the GPU waited for work.
        cores: Cores that the benchmark kept busy.
        driver_cores: Of these, the driver's.
        machine: Share of the machine's cores that were busy, whoever with.
    """

    kind: Kind
    num_gpus: int
    trial_s: float
    gap_s: float
    cores: float
    driver_cores: float
    machine: float


@dataclass(slots=True)
class Watch:
    """Watches a study while all its GPUs are at work.

    Args:
        num_gpus: How many those are.
        window_s: For how long.
    """

    num_gpus: int
    window_s: float
    is_over: bool = False
    _ready: set[str] = field(default_factory=set)
    _ends_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _gaps_s: list[float] = field(default_factory=list)
    _start_s: float | None = None
    _before: tuple[float, float] = (0.0, 0.0)
    _used: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __call__(self, event: StudyEvent) -> None:
        """Take note of an event."""
        now_s = time.monotonic()
        if isinstance(event, DeviceReady):
            self._ready.add(event.uuid)
        if not isinstance(event, TrialMeasured) or self.is_over:
            return
        if self._start_s is None:
            if len(self._ready) == self.num_gpus:
                self._start_s, self._before = now_s, cpu_s()
                psutil.cpu_percent()
            return
        if now_s - self._start_s > self.window_s:
            self._close(now_s - self._start_s)
            return
        self._ends_s[event.uuid].append(now_s)
        if event.between_s is not None:
            self._gaps_s.append(event.between_s)

    def rate(self, kind: Kind) -> Rate:
        """Return what was seen."""
        ends = [each for each in self._ends_s.values() if len(each) > 1]
        spans_s = sum(each[-1] - each[0] for each in ends)
        cores, driver_cores, machine = self._used
        return Rate(
            kind=kind,
            num_gpus=self.num_gpus,
            trial_s=spans_s / sum(len(each) - 1 for each in ends),
            gap_s=sum(self._gaps_s) / len(self._gaps_s),
            cores=cores,
            driver_cores=driver_cores,
            machine=machine,
        )

    def _close(self, duration_s: float) -> None:
        total_s, driver_s = (b - a for a, b in zip(self._before, cpu_s(), strict=True))
        self._used = (total_s / duration_s, driver_s / duration_s, psutil.cpu_percent() / 100)
        self.is_over = True


class Endless(Strategy):
    """A random search that ends with the watching.

    Args:
        watch: Who says when it is over.
    """

    def __init__(self, watch: Watch) -> None:
        axes = {"sm_clock_mhz": GPUS[GPU].study_clocks_mhz, "n": _sizes()}
        space = SearchSpace("gemm", axes)
        self._random = Random(Problem(space=space, objective=OBJECTIVES["edp"]))
        self._watch = watch

    @override
    def ask(self) -> Configuration | None:
        return self._random.ask()

    @override
    def tell(self, outcome: Outcome) -> None:
        self._random.tell(outcome)

    @property
    @override
    def is_done(self) -> bool:
        return self._watch.is_over or self._random.is_done


def cpu_s() -> tuple[float, float]:
    """Return the CPU time of all processes of the benchmark, and that of this one."""
    mine = psutil.Process()
    own_s = sum(mine.cpu_times()[:2])
    total_s = own_s
    for child in mine.children(recursive=True):
        with suppress(psutil.Error):
            total_s += sum(child.cpu_times()[:2])
    return total_s, own_s


def plan() -> tuple[Trial, ...]:
    """Return the trials of a sweep that is longer than anybody watches."""
    clocks = GPUS[GPU].study_clocks_mhz
    return tuple(
        Trial(
            study="scaling",
            name=f"{clock}MHz-{n}",
            configuration=Configuration.of("gemm", {"n": n}, OperatingPoint(sm_clock_mhz=clock)),
        )
        for n in _sizes()
        for clock in clocks
    )


def _sizes() -> Sequence[int]:
    return range(4096, 4096 + 64 * NUM_SIZES, 64)


def measure(kind: Kind, num_gpus: int, settings: Settings, folder: Path) -> Rate:
    """Run a study for as long as it is watched."""
    watch = Watch(num_gpus, settings.window_s)
    sites = simulated_sites(GPU, num_gpus, str(folder / "driver"))
    results = Path(tempfile.mkdtemp(prefix="results-", dir=folder))
    if kind == "sweep":
        _sweep(sites, results, watch, folder / "guard.sock")
    else:
        cluster = cluster_study(
            sites=sites,
            results_dir=results,
            procedure=PROCEDURE,
            guard_socket=folder / "guard.sock",
            on_event=watch,
        )
        run_asked(Search(study="scaling", strategy=Endless(watch)), cluster)
    return watch.rate(kind)


def _sweep(sites: Sequence[Site], results: Path, watch: Watch, guard: Path) -> None:
    def look(event: StudyEvent) -> None:
        watch(event)
        if watch.is_over:
            raise EnoughError

    with suppress(EnoughError):
        cluster = cluster_study(
            sites=sites,
            results_dir=results,
            procedure=PROCEDURE,
            guard_socket=guard,
            on_event=look,
        )
        run_trials(plan(), cluster)


def rates(settings: Settings) -> list[Rate]:
    """Measure all rates; each is told as soon as it is there."""
    folder = Path(tempfile.mkdtemp(prefix="jl-", dir="/tmp"))
    found = []
    try:
        with nodes(NUM_NODES, paced(settings.trial_s / VIRTUAL_S)):
            for num_gpus in settings.gpus:
                kinds: tuple[Kind, ...] = ("sweep", "search") if settings.searches else ("sweep",)
                for kind in kinds:
                    found.append(measure(kind, num_gpus, settings, folder))
                    print(found[-1], file=sys.stderr, flush=True)
    finally:
        with suppress(GuardError):
            GuardClient(folder / "guard.sock", start=False).stop()
        shutil.rmtree(folder, ignore_errors=True)
    return found


def print_rates(found: Sequence[Rate]) -> None:
    """Print one row per study."""
    table = Table(title=f"{psutil.cpu_count()} cores, {NUM_NODES} nodes", title_justify="left")
    for name in ("study", "GPUs", "s a trial", "idle gap ms", "trials/s", "of linear",
                 "cores", "driver's", "machine busy"):  # fmt: skip
        table.add_column(name, justify="right")
    for rate in found:
        table.add_row(
            rate.kind,
            f"{rate.num_gpus}",
            f"{rate.trial_s:.2f}",
            f"{1e3 * rate.gap_s:.0f}",
            f"{rate.num_gpus / rate.trial_s:.2f}",
            f"{share_of(rate, found):.0%}",
            f"{rate.cores:.2f}",
            f"{rate.driver_cores:.2f}",
            f"{rate.machine:.0%}",
        )
    Console(width=110).print(table)


def share_of(rate: Rate, found: Sequence[Rate]) -> float:
    """Return the rate of a GPU over that of the fewest GPUs."""
    first = next(each for each in found if each.kind == rate.kind)
    return first.trial_s / rate.trial_s


def figures(settings: Settings | None = None) -> list[Figure]:
    """Return how far the rate falls behind that of one GPU while cores are left."""
    found = rates(settings or Settings())
    print_rates(found)
    kinds = dict.fromkeys(rate.kind for rate in found)
    return [figure for kind in kinds for figure in _figures(kind, found)]


def _figures(kind: Kind, found: Sequence[Rate]) -> list[Figure]:
    """Return the figure of a kind of study; none where cores were left for one GPU alone."""
    mine = [rate for rate in found if rate.kind == kind]
    free = [rate for rate in mine if rate.machine < BUSY]
    many = [rate for rate in free if rate.num_gpus > mine[0].num_gpus]
    if not many:
        return []
    worst = min(many, key=lambda rate: share_of(rate, found))
    figure = Figure(
        name=f"loss of a {kind} over many GPUs against one, while cores are left",
        measured=100 * (1 - share_of(worst, found)),
        promised=100 * (1 - LINEAR),
        unit="%",
        how=f"at {worst.num_gpus} GPUs; cores left at {[rate.num_gpus for rate in free]} of "
        f"{[rate.num_gpus for rate in mine]} simulated GPUs, {mine[0].trial_s:.1f} s a trial",
    )
    return [figure]


if __name__ == "__main__":
    print_figures(figures(tyro.cli(Settings, description=__doc__)))
