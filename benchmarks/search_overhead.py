#!/usr/bin/env python
"""What a search costs beyond the measuring: strategy, Ray Tune, Ray, the results store, MLflow.

Usage: python benchmarks/search_overhead.py [--num-trials 1000] [--num-gpus 2] [--trial-s 1]
       python benchmarks/search_overhead.py --algorithm model-guided --num-trials 60 --trial-s 1

A GPU is idle from the end of one measuring to the start of the next: while the records are stored
and reported, and where no trial waits in its queue, while Tune takes a result, asks the strategy
and starts a trial. At its end a search waits for Tune to end and for what MLflow has not got by
then. The driver's time is that of all its threads on a processor, Tune's among them. Memory is the
resident one of the driver, by the number of trials measured by then; its growth is the slope of a
line through what lies beyond the first fifth of the trials.

A strategy with a model searches the grid of a study, 61 clocks x 6 sizes x 4 number formats, the
others as many sizes as there are trials.

Simulated GPUs are computed by the cores that the search needs itself. With ``--trial-s`` they wait
on the wall besides, as long as a short trial of a real GPU.
"""

import os
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import ray
import tyro
from cluster_study import cluster_study
from figures import Figure, print_figures
from paced_device import paced

from joulelab.core.procedure import Procedure
from joulelab.errors import GuardError
from joulelab.guard import GuardClient
from joulelab.hardware.catalogue import GPUS
from joulelab.objectives import OBJECTIVES
from joulelab.searching.evidence import Problem
from joulelab.searching.space import SearchSpace
from joulelab.study.budget import Budget
from joulelab.study.events import StudyEvent, TrialMeasured
from joulelab.study.run import run_asked
from joulelab.study.search_queue import Search
from joulelab.tracking.addresses import embedded_uri
from joulelab_actors.placement import simulated_sites
from joulelab_actors.session import NAMESPACE, connected
from joulelab_actors.tune.algorithms import algorithm

_VIRTUAL_S = 30.0
"""Virtual time of a trial of the usual procedure, about."""
_GPU = "a100_sxm"
GRID = {
    "sm_clock_mhz": GPUS[_GPU].study_clocks_mhz,
    "n": (512, 1024, 2048, 4096, 6144, 8192),
    "precision": ("fp32", "tf32", "fp16", "bf16"),
}
_MODELLED = ("model-guided",)
_FEW = 100
"""Gaps from which on a 95th percentile is more than one of them. The longest is at the end of a
model's search, where it has nothing to ask for until it is told."""
_MANY = 1000
"""Trials from which on memory is followed: of fewer, what is loaded on the way is most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the benchmark.

    Attributes:
        num_trials: Trials of the search.
        num_gpus: Simulated GPUs.
        algorithm: Name of the search algorithm.
        trial_s: Wall time for which a trial waits, about; 0 for none.
        tracked: Whether MLflow is told.
    """

    num_trials: int = 1000
    num_gpus: int = 2
    algorithm: str = "random"
    trial_s: float = 0.0
    tracked: bool = True


@dataclass(slots=True)
class Seen:
    """What was seen of a search.

    Attributes:
        between_s: Idle gaps.
        num_measured: Trials measured by now.
        driver_b: The driver's memory by the trials measured.
        driver_s: The driver's processor time.
        measured_s: When the last trial had been measured, since the start.
        wall_s: When the search was over, since the start.
        load: Load of the machine at its end.
    """

    between_s: list[float] = field(default_factory=list)
    num_measured: int = 0
    driver_b: dict[int, int] = field(default_factory=dict)
    driver_s: float = 0.0
    measured_s: float = 0.0
    wall_s: float = 0.0
    load: float = 0.0

    def __call__(self, event: StudyEvent) -> None:
        """Take note of an event."""
        if isinstance(event, TrialMeasured):
            self.measured_s = time.monotonic()
            self.num_measured += 1
            self.driver_b[self.num_measured] = psutil.Process().memory_info().rss
            if event.between_s is not None:
                self.between_s.append(event.between_s)


def later_b(memory_b: Mapping[int, int]) -> dict[int, int]:
    """Return memory by the number of trials, the first fifth of them left out."""
    return {num: read_b for num, read_b in memory_b.items() if num >= max(memory_b) / 5}


def growth_b(memory_b: Mapping[int, int]) -> float:
    """Return the slope of memory over trials, the first fifth of them left out."""
    later = later_b(memory_b)
    return float(np.polyfit([*later], [*later.values()], 1)[0])


def watch(settings: Settings, folder: Path, seen: Seen) -> None:
    """Run a search, one without a model at the driver's own clocks."""
    sizes = tuple(range(1024, 1024 + 64 * settings.num_trials, 64))
    is_modelled, socket = settings.algorithm in _MODELLED, folder / "guard.sock"
    space = SearchSpace("gemm", GRID if is_modelled else {"n": sizes})
    problem = Problem(space=space, objective=OBJECTIVES["edp"], gpu=GPUS[_GPU])
    start_s, busy_s = time.monotonic(), time.process_time()
    cluster = cluster_study(
        sites=simulated_sites(_GPU, settings.num_gpus, str(folder / "driver")),
        results_dir=folder / "results",
        procedure=Procedure(),
        tracking_uri=embedded_uri(folder) if settings.tracked else None,
        observe_only=not is_modelled,
        guard_socket=socket,
        on_event=seen,
    )
    search = Search(
        study="overhead",
        strategy=algorithm(settings.algorithm)(problem),
        budget=Budget(num_trials=settings.num_trials),
    )
    run_asked(search, cluster)
    seen.driver_s = time.process_time() - busy_s
    seen.measured_s -= start_s
    seen.wall_s = time.monotonic() - start_s
    seen.load = psutil.getloadavg()[1]
    with suppress(GuardError):  # none answers where no clock was set
        GuardClient(socket, start=False).stop()


def figures(settings: Settings | None = None) -> list[Figure]:
    """Return a search's idle gaps, its driver's time and its growth."""
    if settings is None:
        many = Settings(num_gpus=8, num_trials=240, trial_s=2.0)
        modelled = Settings(algorithm="model-guided", num_trials=60, trial_s=1.0)
        return figures(Settings()) + figures(many) + figures(modelled)
    seen = Seen()
    with (
        _ray(settings),
        tempfile.TemporaryDirectory(prefix="jl-") as folder,
    ):
        watch(settings, Path(folder), seen)
    return list(_figures(settings, seen))


@contextmanager
def _ray(settings: Settings) -> Iterator[None]:
    """Hold a connection to a Ray of this machine, with simulated GPUs that wait if they are to."""
    if settings.trial_s:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        os.environ.setdefault("RAY_worker_niceness", "0")
        ray.init(
            address="local",
            namespace=NAMESPACE,
            include_dashboard=False,
            log_to_driver=False,
            runtime_env=paced(settings.trial_s / _VIRTUAL_S),
        )
    try:
        with connected():
            yield
    finally:
        ray.shutdown()


def _figures(settings: Settings, seen: Seen) -> Iterator[Figure]:
    waits = f" that wait {settings.trial_s:g} s a trial" if settings.trial_s else ""
    how = (
        f"{seen.num_measured} trials of {settings.algorithm} search on {settings.num_gpus} "
        f"simulated GPU(s){waits}, MLflow {'on' if settings.tracked else 'off'}, "
        f"{seen.wall_s:.0f} s, load {seen.load:.1f} on {psutil.cpu_count()} cores"
    )
    gaps_ms = 1e3 * np.array(seen.between_s)
    shares = [("median", 50, 50), ("95th percentile", 95, 200)]
    for name, share, promised in shares if len(gaps_ms) >= _FEW else shares[:1]:
        yield Figure(
            name=f"a GPU's idle gap between two trials of a search ({name})",
            measured=float(np.percentile(gaps_ms, share)),
            promised=promised,
            unit="ms",
            how=f"{max(gaps_ms):.0f} ms at most; {how}",
        )
    yield Figure(
        name="the driver's processor time for a trial of a search",
        measured=1e3 * seen.driver_s / seen.num_measured,
        promised=300,
        unit="ms",
        how=how,
    )
    yield Figure(
        name="a search's wait at its end for Ray Tune and MLflow, for each of its trials",
        measured=1e3 * (seen.wall_s - seen.measured_s) / seen.num_measured,
        promised=100,
        unit="ms",
        how=f"measuring ended after {seen.measured_s:.0f} s; {how}",
    )
    if seen.num_measured < _MANY:
        return
    yield Figure(
        name="growth of the driver's memory with every trial of a search",
        measured=growth_b(seen.driver_b) / 1e3,
        promised=60,
        unit="kB",
        how=_course(seen.driver_b) + how,
    )


def _course(memory_b: Mapping[int, int]) -> str:
    first_b, *_, last_b = (later := later_b(memory_b)).values()
    return (
        f"{first_b / 1e6:.0f} MB after a fifth of the trials, {last_b / 1e6:.0f} MB after all, "
        f"{max(later.values()) / 1e6:.0f} MB at most; "
    )


if __name__ == "__main__":
    print_figures(figures(tyro.cli(Settings, description=__doc__)))
