#!/usr/bin/env python
"""What a search costs beyond the measuring: strategy, Ray Tune, Ray, the results store, MLflow.

Usage: python benchmarks/search_overhead.py [--num-trials 200] [--num-gpus 2]

A GPU is idle from the end of one measuring to the start of the next: while the records are stored
and reported, and the strategy is told and asked. The driver's time is that of all its threads,
Tune's included, on a processor. Memory is the driver's, from one third of the trials to the end.
"""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import psutil
import tyro
from figures import Figure, print_figures

from joulelab.core.procedure import Procedure
from joulelab.search.evidence import Problem
from joulelab.search.goal import goal_of
from joulelab.search.space import SearchSpace
from joulelab.tracking.base import embedded_uri
from joulelab_actors.events import StudyEvent, TrialMeasured
from joulelab_actors.placement import simulated_sites
from joulelab_actors.search.algorithms import strategy_of
from joulelab_actors.search.budget import Budget
from joulelab_actors.search.run import run_search
from joulelab_actors.session import connected


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the benchmark.

    Attributes:
        num_trials: Trials of the search.
        num_gpus: Simulated GPUs.
        algorithm: Name of the search algorithm.
    """

    num_trials: int = 200
    num_gpus: int = 2
    algorithm: str = "random"


@dataclass(slots=True)
class Seen:
    """What was seen of a search: idle gaps, and the driver's memory after every trial."""

    between_s: list[float] = field(default_factory=list)
    memory_b: list[int] = field(default_factory=list)
    driver_s: float = 0.0
    wall_s: float = 0.0

    def __call__(self, event: StudyEvent) -> None:
        """Take note of an event."""
        if isinstance(event, TrialMeasured):
            self.note_memory()
            if event.between_s is not None:
                self.between_s.append(event.between_s)

    def note_memory(self) -> None:
        """Read the memory of this process."""
        self.memory_b.append(psutil.Process().memory_info().rss)

    @property
    def growth_b(self) -> float:
        """Bytes that a trial leaves behind, the first third of them left out."""
        first = len(self.memory_b) // 3
        return (self.memory_b[-1] - self.memory_b[first]) / (len(self.memory_b) - first)


def watch(settings: Settings, folder: Path) -> Seen:
    """Run a search at the driver's own clocks, with tracking."""
    seen = Seen()
    sizes = tuple(range(1024, 1024 + 64 * settings.num_trials, 64))
    problem = Problem(space=SearchSpace("gemm", {"n": sizes}), goal=goal_of("edp"))
    start_s, busy_s = time.monotonic(), time.process_time()
    summary = run_search(
        strategy_of(settings.algorithm, problem),
        study="overhead",
        sites=simulated_sites("h200_sxm", settings.num_gpus, str(folder / "driver")),
        results_dir=folder / "results",
        procedure=Procedure(),
        budget=Budget(num_trials=settings.num_trials),
        tracking_uri=embedded_uri(folder),
        observe_only=True,
        on_event=seen,
    )
    seen.note_memory()
    seen.driver_s = time.process_time() - busy_s
    seen.wall_s = time.monotonic() - start_s
    if summary.tune_trouble is not None:
        raise RuntimeError(summary.tune_trouble)
    return seen


def figures(settings: Settings | None = None) -> list[Figure]:
    """Return a search's idle gaps, its driver's time and its growth."""
    settings = settings or Settings()
    with connected(), tempfile.TemporaryDirectory(prefix="jl-") as folder:
        seen = watch(settings, Path(folder))
    return list(_figures(settings, seen))


def _figures(settings: Settings, seen: Seen) -> Iterator[Figure]:
    how = (
        f"{settings.num_trials} trials of {settings.algorithm} search on {settings.num_gpus} "
        f"simulated GPU(s), MLflow on, {seen.wall_s:.0f} s"
    )
    yield Figure(
        name="a GPU's idle gap between two trials of a search (median)",
        measured=1e3 * median(seen.between_s),
        promised=50,
        unit="ms",
        how=f"{how}; 95th percentile {1e3 * quantiles(seen.between_s, n=20)[-1]:.0f} ms",
    )
    yield Figure(
        name="the driver's processor time for a trial of a search",
        measured=1e3 * seen.driver_s / settings.num_trials,
        promised=300,
        unit="ms",
        how=how,
    )
    yield Figure(
        name="the driver's memory that a trial of a search leaves behind",
        measured=seen.growth_b / 1e3,
        promised=50,
        unit="kB",
        how=how,
    )


if __name__ == "__main__":
    print_figures(figures(tyro.cli(Settings, description=__doc__)))
