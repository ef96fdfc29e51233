#!/usr/bin/env python
"""What a study over many GPUs takes of memory, of the driver's time and of the disk.

Usage: python benchmarks/cluster_scale.py [--num-gpus 64] [--kind search] [--num-trials 2000]
       python benchmarks/cluster_scale.py --num-gpus 16 --algorithm model-guided --num-trials 300

Simulated GPUs in virtual time on nodes of Ray's that share this machine. Memory is the sum of what
all processes below this one hold, pages that several share in parts (PSS), at its most. The
driver's time is that of all its threads on a processor, the watching of the memory left out.
"""

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Literal

import psutil
import tyro
from cluster_nodes import nodes
from cluster_study import cluster_study
from figures import Figure, print_figures
from ray_workers import worker_titles
from search_overhead import GRID
from search_scaling import GPU, PROCEDURE, plan

from joulelab.errors import GuardError
from joulelab.guard import GuardClient
from joulelab.hardware.catalogue import GPUS
from joulelab.objectives import OBJECTIVES
from joulelab.searching.evidence import Problem
from joulelab.searching.space import SearchSpace
from joulelab.study.budget import Budget
from joulelab.study.events import StudyEvent, TrialMeasured
from joulelab.study.run import StudySetup, run_asked, run_trials
from joulelab.study.search_queue import Search
from joulelab_actors.placement import simulated_sites
from joulelab_actors.tune.algorithms import algorithm

_LOOK_S = 2.0
_KINDS = {"ray::MeasuredTrial": "Tune's trials", "ray::GpuActor": "GPU actors"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the benchmark.

    Attributes:
        num_gpus: Simulated GPUs.
        num_nodes: Ray's nodes.
        num_trials: Trials of the study.
        kind: Whether the trials are planned, or asked for.
        algorithm: Name of the search algorithm.
    """

    num_gpus: int = 64
    num_nodes: int = 8
    num_trials: int = 2000
    kind: Literal["sweep", "search"] = "search"
    algorithm: str = "random"


@dataclass(slots=True)
class Watch:
    """Looks at the processes below this one every two seconds.

    Attributes:
        memory_b: Memory by what holds it, when the whole was at its most.
        num_processes: Most processes at once, by what they are.
        num_measured: Trials measured by now.
        own_s: Processor time that the looking took.
    """

    memory_b: Counter[str] = field(default_factory=Counter)
    num_processes: Counter[str] = field(default_factory=Counter)
    num_measured: int = 0
    own_s: float = 0.0
    _is_over: Event = field(default_factory=Event)

    def __call__(self, event: StudyEvent) -> None:
        """Take note of an event."""
        self.num_measured += isinstance(event, TrialMeasured)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look from a thread of its own for the length of a ``with`` block."""
        thread = Thread(target=self._look_on, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def _look_on(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            memory_b, processes = held_b()
            self.num_processes |= processes
            if memory_b.total() > self.memory_b.total():
                self.memory_b = memory_b
            self.own_s = time.thread_time()


def held_b() -> tuple[Counter[str], Counter[str]]:
    """Return memory and processes of the benchmark, by what they are."""
    memory_b: Counter[str] = Counter()
    processes: Counter[str] = Counter()
    mine, titles = psutil.Process(), worker_titles()
    for process in (mine, *mine.children(recursive=True)):
        with suppress(psutil.Error):
            kind = "driver" if process == mine else _kind(titles.get(process.pid), process.name())
            memory_b[kind] += process.memory_full_info().pss
            processes[kind] += 1
    return memory_b, processes


def _kind(title: str | None, name: str) -> str:
    if title is None:
        return name if name in {"raylet", "gcs_server"} else "other processes"
    return next((_KINDS[each] for each in _KINDS if title.startswith(each)), "other workers")


def carry_out(settings: Settings, setup: StudySetup) -> None:
    """Run the study."""
    if settings.kind == "sweep":
        trials = plan()[: settings.num_trials]
        run_trials(trials, setup)
        return
    is_modelled = settings.algorithm == "model-guided"
    sizes = tuple(range(1024, 1024 + 64 * 40, 64))
    clocks = GPUS[GPU].study_clocks_mhz
    space = SearchSpace("gemm", GRID if is_modelled else {"sm_clock_mhz": clocks, "n": sizes})
    problem = Problem(space=space, objective=OBJECTIVES["edp"], gpu=GPUS[GPU])
    strategy = algorithm(settings.algorithm)(problem)
    budget = Budget(num_trials=settings.num_trials)
    run_asked(Search(study="scaling", strategy=strategy, budget=budget), setup)


def figures(settings: Settings | None = None) -> list[Figure]:
    """Return memory, the driver's time for a trial, and what it leaves on the disk."""
    settings, watch = settings or Settings(), Watch()
    folder = Path(tempfile.mkdtemp(prefix="jl-", dir="/tmp"))
    try:
        with nodes(settings.num_nodes), watch.looking():
            setup = cluster_study(
                sites=simulated_sites(GPU, settings.num_gpus, str(folder / "driver")),
                results_dir=folder / "results",
                procedure=PROCEDURE,
                guard_socket=folder / "guard.sock",
                on_event=watch,
            )
            start_s, busy_s = time.monotonic(), time.process_time()
            carry_out(settings, setup)
            wall_s, busy_s = time.monotonic() - start_s, time.process_time() - busy_s
        stored_b = sum(path.stat().st_size for path in (folder / "results").rglob("*.*"))
    finally:
        with suppress(GuardError):
            GuardClient(folder / "guard.sock", start=False).stop()
        shutil.rmtree(folder, ignore_errors=True)
    how = (
        f"{watch.num_measured} trials of a {settings.kind}, {settings.num_gpus} simulated GPUs on "
        f"{settings.num_nodes} nodes, {wall_s:.0f} s on {os.cpu_count()} cores"
    )
    return list(_figures(watch, busy_s - watch.own_s, stored_b, how))


def _figures(watch: Watch, busy_s: float, stored_b: int, how: str) -> Iterator[Figure]:
    parts = ", ".join(
        f"{kind} {held_b / 2**30:.2f} ({watch.num_processes[kind]})"
        for kind, held_b in watch.memory_b.most_common()
    )
    yield Figure(
        name="memory of a study over many GPUs",
        measured=watch.memory_b.total() / 2**30,
        promised=8,
        unit="GiB",
        how=f"GiB (most processes at once): {parts}; {how}",
    )
    yield Figure(
        name="the driver's processor time for a trial of a study over many GPUs",
        measured=1e3 * busy_s / watch.num_measured,
        promised=100,
        unit="ms",
        how=how,
    )
    yield Figure(
        name="what a trial leaves on the disk",
        measured=stored_b / watch.num_measured / 1e3,
        promised=60,
        unit="kB",
        how=how,
    )


if __name__ == "__main__":
    print_figures(figures(tyro.cli(Settings, description=__doc__)))
