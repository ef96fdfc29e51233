#!/usr/bin/env python
"""Kill processes of running studies at random, or all of them; count what that cost.

Usage: python benchmarks/kill_study.py [--kills 200] [--seed 0] [--every 1] [--num-gpus 4]

Studies run one after another over simulated GPUs. Every so often one process gets SIGKILL; a
driver that was killed is started again and resumes its study. Half of the kills are of studies in
a cluster that outlives them: actors, workers, drivers, the clock guard and its watchdog. The other
half are of studies with a Ray of their own: its head and raylet besides, and the whole job at once,
guard included. In the end no clock may be locked, every measurement that an actor ever completed
must be in the store, and no trial may have two.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Literal

import psutil
import ray
import tyro
from cluster_study import cluster_study
from figures import Figure, print_figures
from ray_workers import worker_titles

from joulelab import Configuration, OperatingPoint
from joulelab.core.plan import plan_sweep
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.devices.simulated import DriverStore
from joulelab.errors import GuardError
from joulelab.guard import GuardClient
from joulelab.study.run import run_trials
from joulelab.tracking.addresses import embedded_uri
from joulelab.tracking.store import ResultStore, study_folders
from joulelab_actors.placement import simulated_sites
from joulelab_actors.session import DIED, Lifeline, connected

Victim = Literal["actor", "worker", "guard", "watchdog", "driver", "raylet", "head", "job"]
WEIGHTS: dict[Victim, int] = {"actor": 8, "worker": 2, "guard": 4, "watchdog": 1, "driver": 3}
WEIGHTS_OF_OWN_RAY = WEIGHTS | {"raylet": 3, "head": 3, "job": 3}
SERVERS: dict[Victim, str] = {"raylet": "raylet", "head": "gcs_server"}
CLOCKS_MHZ = range(345, 1005, 15)  # below the power limit, so that every trial can be valid
PAUSE_S = (0.1, 2.0)
_WHILE_STARTING = 0.02  # of the looks, some ten of which a Ray takes to start
RESTORE_TIMEOUT_S = 15.0
LAST_STUDY_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the benchmark.

    Attributes:
        kills: Processes to kill.
        seed: Seed of whom and when.
        every: Of the clocks, studies have every so many.
        num_gpus: GPUs of each study.
        drive_in: Be the driver of studies in this folder; for the benchmark's own use.
    """

    kills: int = 200
    seed: int = 0
    every: int = 1
    num_gpus: int = 4
    drive_in: Path | None = None


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What was killed, and what it cost."""

    kills: Counter[Victim] = field(default_factory=Counter)
    completed: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    doubled: list[str] = field(default_factory=list)
    unmeasured: list[str] = field(default_factory=list)
    locked: tuple[str, ...] = ()
    mishaps: list[str] = field(default_factory=list)
    num_studies: int = 0
    wall_s: float = 0.0

    @property
    def clean(self) -> bool:
        """Whether the kills cost nothing but time."""
        return not (self.lost or self.doubled or self.unmeasured or self.locked or self.mishaps)


def plan(number: int, settings: Settings) -> tuple[Trial, ...]:
    """Return the trials of study ``number``, at every so many of the clocks."""
    configurations = [
        Configuration.of("gemm", point=OperatingPoint(sm_clock_mhz=clock))
        for clock in CLOCKS_MHZ[:: settings.every]
    ]
    return plan_sweep(f"kills-{number}", configurations, repeats=2, seed=number)


def drive(folder: Path, settings: Settings) -> None:
    """Run study after study, each until it is complete; begin none once that is enough."""
    with connected(), Lifeline("the one that goes on"):
        sites = simulated_sites("h200_sxm", settings.num_gpus, str(folder / "driver"))
        for number in count():
            done, results = folder / f"done-{number}", folder / "results" / f"kills-{number}"
            if (folder / "enough").exists() and not results.exists():
                (folder / "finished").touch()
                return
            while not done.exists():
                cluster = cluster_study(
                    sites=sites,
                    results_dir=results,
                    procedure=Procedure(),
                    tracking_uri=embedded_uri(folder),
                    guard_socket=folder / "guard.sock",
                )
                summary = run_trials(plan(number, settings), cluster)
                if summary.complete:
                    done.touch()


class Killer:
    """Keeps a driver running, kills at random, and remembers every result it ever saw.

    Its driver is in the cluster at ``address``, or with ``None`` starts a Ray of its own.
    """

    def __init__(self, folder: Path, settings: Settings, address: str | None) -> None:
        self.outcome = Outcome()
        self._settings = settings
        self._address = address
        self._folder = folder
        self._random = random.Random(settings.seed)  # noqa: S311 - whom to kill is no secret
        self._driver: subprocess.Popen[bytes] | None = None
        self._before = 0  # measurements that were complete when it started
        self._guard = GuardClient(folder / "guard.sock", start=False)

    def run(self, kills: int) -> None:
        """Kill ``kills`` processes, then let the study that runs come to its end."""
        while self.outcome.kills.total() < kills:
            self._keep_driving()
            time.sleep(self._random.uniform(*PAUSE_S))
            self._watch()
            if self._random.random() < _WHILE_STARTING or self._has_measured():
                self._kill_one()
        (self._folder / "enough").touch()
        deadline_s = time.monotonic() + LAST_STUDY_TIMEOUT_S
        while self._keep_driving() and time.monotonic() < deadline_s:
            time.sleep(0.5)
            self._watch()
        self._watch()

    def close(self) -> None:
        """End what was started here."""
        if self._driver is not None and self._driver.poll() is None:
            self._driver.kill()
            self._driver.wait()
        with suppress(GuardError):
            self._guard.stop()

    def _keep_driving(self) -> bool:
        """Start the driver anew if it was killed; ``False`` once it has done all it should."""
        if self._driver is not None and (status := self._driver.poll()) is not None:
            if (self._folder / "finished").exists():
                return False
            if status not in self._ends:
                self.outcome.mishaps.append(f"driver {self._driver.pid} ended with {status}")
            self._driver = None
        if self._driver is None:
            self._before = len(self.outcome.completed)
            command = [sys.executable, __file__, "--drive-in", str(self._folder)]
            command += ["--every", str(self._settings.every)]
            command += ["--num-gpus", str(self._settings.num_gpus)]
            environment = os.environ | {"RAY_AUTH_MODE": "token"}
            if self._address is not None:
                environment["RAY_ADDRESS"] = self._address
            with (self._folder / "driver.log").open("ab") as log:
                self._driver = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        return True

    @property
    def _ends(self) -> set[int]:
        """How a driver may end: killed, or because its own Ray has lost a server."""
        return {-signal.SIGKILL} | (set() if self._address else {DIED})

    def _has_measured(self) -> bool:
        """Whether the driver has gone on with its study since it was started."""
        return len(self.outcome.completed) > self._before

    def _kill_one(self) -> None:
        weights = WEIGHTS if self._address else WEIGHTS_OF_OWN_RAY
        [victim] = self._random.choices(list(weights), weights=list(weights.values()))
        if not (pids := self._pids(victim)):
            return
        killed = pids if victim == "job" else [self._random.choice(pids)]
        for pid in killed:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.outcome.kills[victim] += 1
        with (self._folder / "kills.log").open("a") as log:
            log.write(f"{datetime.now(UTC):%H:%M:%S.%f} {victim} {killed}\n")

    def _pids(self, victim: Victim) -> list[int]:
        driver = self._driver if self._driver and self._driver.poll() is None else None
        if victim in {"driver", "job"} and driver is None:
            return []
        if victim == "driver":
            return [driver.pid]
        if victim in {"guard", "watchdog"}:
            return self._guards(victim)
        if victim == "job":
            below = [each.pid for each in psutil.Process(driver.pid).children(recursive=True)]
            return [*self._guards("watchdog"), *self._guards("guard"), driver.pid, *below]
        if victim in SERVERS:
            return [p.pid for p in psutil.Process().children(True) if p.name() == SERVERS[victim]]
        is_actor = victim == "actor"
        titles = worker_titles()
        return [p for p, title in titles.items() if ("GpuActor" in title) == is_actor]

    def _guards(self, which: Literal["guard", "watchdog"]) -> list[int]:
        with suppress(GuardError):
            status = self._guard.status()
            pid = status.pid if which == "guard" else status.watchdog_pid
            return [pid] if pid else []
        return []

    def _watch(self) -> None:
        """Remember the measurements that are completed: their line in the store has its end."""
        for path in self._folder.glob("results/*/measurements/*.jsonl"):
            whole = path.read_bytes().rpartition(b"\n")[0]
            for line in whole.splitlines():
                self.outcome.completed.add(line.split(b'"', 4)[3].decode())


def examine(folder: Path, outcome: Outcome, settings: Settings) -> None:
    """Find out what the kills cost."""
    present: set[str] = set()
    for study in study_folders(folder / "results"):
        number = int(study.name.rpartition("-")[2])
        outcome.num_studies += 1
        measurements = ResultStore(study).read()
        present |= {m.measurement_id for m in measurements}
        valid = Counter(m.trial for m in measurements if m.valid)
        outcome.doubled += [f"{study.name}/{name}" for name, n in valid.items() if n > 1]
        outcome.unmeasured += [
            f"{study.name}/{trial.name}"
            for trial in plan(number, settings)
            if trial.name not in valid
        ]
    outcome.lost = outcome.completed - present
    driver, deadline_s = DriverStore(folder / "driver"), time.monotonic() + RESTORE_TIMEOUT_S
    while driver.locked_uuids() and time.monotonic() < deadline_s:
        time.sleep(0.1)
    outcome.locked = driver.locked_uuids()


def kill_study(settings: Settings, *, own_ray: bool) -> Outcome:
    """Run the benchmark in a folder of its own, which stays if anything was lost."""
    folder = Path(tempfile.mkdtemp(prefix="jl-kill-", dir="/tmp"))
    start_s = time.monotonic()
    with nullcontext() if own_ray else connected():
        address = None if own_ray else ray.get_runtime_context().gcs_address
        killer = Killer(folder, settings, address)
        try:
            killer.run(settings.kills // 2)
            examine(folder, killer.outcome, settings)
        finally:
            killer.close()
    killer.outcome.wall_s = time.monotonic() - start_s
    if killer.outcome.clean:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"What is left is in {folder}. {killer.outcome.mishaps}", file=sys.stderr)
    return killer.outcome


def figures(settings: Settings | None = None) -> list[Figure]:
    """Return what the kills cost, all of which is promised to be nothing."""
    settings = settings or Settings()
    return [
        figure
        for own_ray in (False, True)
        for figure in costs(kill_study(settings, own_ray=own_ray))
    ]


def costs(outcome: Outcome) -> list[Figure]:
    """Return what kills cost."""
    killed = ", ".join(f"{n} x {victim}" for victim, n in sorted(outcome.kills.items()))
    how = (
        f"{outcome.kills.total()} SIGKILLs ({killed}) during {outcome.num_studies} studies, "
        f"{len(outcome.completed)} measurements, {outcome.wall_s:.0f} s"
    )
    found = {
        "clocks left locked by kills": len(outcome.locked),
        "completed measurements lost by kills": len(outcome.lost),
        "trials with two valid measurements": len(outcome.doubled),
        "trials without a valid measurement": len(outcome.unmeasured),
        "drivers that ended otherwise than killed": len(outcome.mishaps),
    }
    return [
        Figure(name=name, measured=cost, promised=0, unit="", how=how)
        for name, cost in found.items()
    ]


def main(settings: Settings) -> int:
    """Be a driver, or run the benchmark; the exit code is 0 if the kills cost nothing."""
    if settings.drive_in is not None:
        drive(settings.drive_in, settings)
        return 0
    found = figures(settings)
    print_figures(found)
    return 0 if all(figure.kept for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Settings)))
