#!/usr/bin/env python
"""Kill the driver of searches at random and resume it; count what that cost, compare answers.

Usage: python benchmarks/search_kills.py [--kills 50] [--seed 0]

Searches run one after another over simulated GPUs that take wall time, and the driver of each gets
several SIGKILLs: most while it measures, some while it starts or ends. It is started again until
the search has ended. No measurement that an actor ever completed may be missing then, none may
have been made twice, and the strategy must have been told of each.

Every search also runs undisturbed, on boards of the same traits and with the same seed. What a
random search measures depends on its seed alone, so both must have measured the same. What a
model-guided search asks for depends on figures with noise, and on how many were out when it was
asked, which a kill changes on one GPU as on several: there the configuration that one recommends
must be among those that the other cannot tell apart from its own, measured or not.
"""

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Literal

import ray
import tyro
from figures import Figure, print_figures
from paced_device import paced
from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.core.measurement import Measurement
from joulelab.core.procedure import Procedure
from joulelab.devices.simulated import DriverStore
from joulelab.errors import GuardError
from joulelab.guard import GuardClient
from joulelab.hardware.catalogue import GPUS
from joulelab.search.base import Outcome, Strategy
from joulelab.search.evidence import Problem
from joulelab.search.goal import goal_of
from joulelab.search.race import Race
from joulelab.search.space import SearchSpace
from joulelab.search.strategies.model_guided import ModelGuided
from joulelab.search.strategies.random import Random
from joulelab.tracking.base import embedded_uri
from joulelab.tracking.store import ResultStore
from joulelab_actors.placement import simulated_sites
from joulelab_actors.search.budget import Budget
from joulelab_actors.search.desk import Sentinel
from joulelab_actors.search.history import History, history_of
from joulelab_actors.search.run import run_search
from joulelab_actors.session import NAMESPACE, connected

PROCEDURE = Procedure(
    idle_s=1.0, settle_s=0.2, warmup_min_s=1.0, warmup_max_s=60.0, window_s=1.0, limit_s=10.0
)
GPU = "a100_sxm"
NUM_TRIALS = 20
PACE = 0.02
EARLY = 0.2
"""Share of the kills at any moment from the start of the driver's process on."""
EARLY_S, MEASURING_S = 8.0, 6.0
KILLS = (3, 8)
"""Fewest and most in one search."""
RESTORE_TIMEOUT_S = 15.0
END_TIMEOUT_S = 300.0


_FORKS = get_context("forkserver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the benchmark.

    Attributes:
        kills: Drivers to kill.
        seed: Seed of the moments.
    """

    kills: int = 50
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kind of search.

    Attributes:
        algorithm: What chooses.
        num_gpus: Simulated GPUs.
        tracked: Whether MLflow is told.
    """

    algorithm: Literal["random", "model-guided"]
    num_gpus: int
    tracked: bool = False

    def __str__(self) -> str:
        return f"{self.algorithm} on {self.num_gpus}"


CASES = (
    Case(algorithm="model-guided", num_gpus=1),
    Case(algorithm="random", num_gpus=2),
    Case(algorithm="model-guided", num_gpus=3),
    Case(algorithm="random", num_gpus=1, tracked=True),
)


@dataclass(slots=True, kw_only=True)
class Damage:
    """What the kills of one search cost.

    Attributes:
        case: The search.
        kills: How often its driver was killed, by what it was doing.
        lost: Measurements that were in the store once and are not any more, and trials that
            are there but of which the strategy was not told.
        doubled: Trials, or repeats of a configuration, with two valid measurements.
        locked: GPUs with a clock still locked.
        num_trials: Trials that it made.
        stopped_by: What ended it.
        same_answer: Whether it found what it finds undisturbed.
        apart: Logarithm of the cost of what it recommends over that of what it recommends
            undisturbed, as the undisturbed one expects it.
        details: What was found, in words.
    """

    case: Case
    kills: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    locked: tuple[str, ...] = ()
    num_trials: int = 0
    stopped_by: str = ""
    same_answer: bool = False
    apart: float = 0.0
    details: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether it made as many trials as it may, unless it needed fewer."""
        if self.stopped_by == "the strategy":
            return self.num_trials <= NUM_TRIALS
        return self.num_trials == NUM_TRIALS

    @property
    def clean(self) -> bool:
        """Whether the kills cost nothing but time."""
        return self.whole and self.same_answer and not (self.lost or self.doubled or self.locked)


class Listening(Strategy):
    """A strategy whose every outcome is noted.

    Args:
        strategy: The one that chooses.
    """

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self.told: Counter[str] = Counter()

    @override
    def ask(self) -> Configuration | None:
        return self._strategy.ask()

    @override
    def tell(self, outcome: Outcome) -> None:
        self.told[outcome.candidate.config_hash] += 1
        self._strategy.tell(outcome)

    @property
    @override
    def is_done(self) -> bool:
        return self._strategy.is_done


@cache
def problem() -> Problem:
    """Return what is searched for: matrix products on an A100, by clock and number format."""
    axes = {"sm_clock_mhz": GPUS[GPU].study_clocks_mhz, "precision": ("fp16", "tf32")}
    return Problem(space=SearchSpace("gemm", axes), goal=goal_of("edp"))


def made(case: Case, seed: int) -> tuple[Strategy, ModelGuided | None]:
    """Return what chooses in a search, and the model in it if there is one."""
    if case.algorithm == "random":
        return Random(problem(), seed=seed), None
    model = ModelGuided(problem(), seed=seed)
    return Race(problem(), model), model


def drive(folder: Path, number: int, address: str) -> None:
    """Run search ``number`` to its end, or as far as it gets."""
    log = os.open(folder / "driver.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    case = CASES[number % len(CASES)]
    chooses = Listening(made(case, number)[0])
    sentinel = None
    if case.algorithm == "model-guided":
        sentinel = Sentinel(configuration=problem().space.baseline)
    ray.init(
        address=address,
        namespace=NAMESPACE,
        runtime_env=paced(PACE),
        log_to_driver=False,
    )
    events = (folder / "events").open("a", buffering=1)
    summary = run_search(
        chooses,
        study=folder.name,
        sites=simulated_sites(GPU, case.num_gpus, str(folder / "driver")),
        results_dir=folder / "results",
        procedure=PROCEDURE,
        budget=Budget(num_trials=NUM_TRIALS),
        sentinel=sentinel,
        tracking_uri=embedded_uri(folder.parent) if case.tracked else None,
        guard_socket=folder.parent / "guard.sock",
        on_event=lambda event: print(type(event).__name__, file=events),
    )
    if not (summary.study.quarantined or summary.study.unfinished):
        print("Ended", file=events)
        trouble = [summary.tune_trouble] if summary.tune_trouble else []
        done = {"told": chooses.told, "trouble": trouble, "stopped_by": summary.stopped_by}
        (folder / "done").write_text(json.dumps(done))


class Killer:
    """Keeps the driver of one search running, and kills it.

    Args:
        folder: Of the search.
        number: Which one.
        random: Of the moments.
    """

    def __init__(self, folder: Path, number: int, random: random.Random) -> None:
        self.damage = Damage(case=CASES[number % len(CASES)])
        self.completed: set[str] = set()
        self._folder, self._number, self._random = folder, number, random

    def run(self, most_kills: int) -> None:
        """Run the search to its end, with so many kills at most."""
        while not (self._folder / "done").exists():
            driver = self._start()
            if self.damage.kills.total() < most_kills:
                self._kill(driver)
            driver.join(END_TIMEOUT_S)
            if driver.exitcode not in (0, -signal.SIGKILL):
                self.damage.details.append(f"the driver ended with {driver.exitcode}")
            self._watch()

    def _kill(self, driver: BaseProcess) -> None:
        """Kill the driver at a random moment, unless it has ended by then."""
        early = self._random.random() < EARLY
        if early:
            wait_s = self._random.uniform(0.0, EARLY_S)
        else:
            self._await_start(driver)
            wait_s = self._random.uniform(0.0, MEASURING_S)
        driver.join(wait_s)
        if driver.is_alive():
            driver.kill()
            driver.join()
            self.damage.kills[self._doing()] += 1

    def _start(self) -> BaseProcess:
        """Start a driver, with what it imports ready."""
        (self._folder / "events").unlink(missing_ok=True)
        address = ray.get_runtime_context().gcs_address
        driver = _FORKS.Process(target=drive, args=(self._folder, self._number, address))
        driver.start()
        return driver

    def _await_start(self, driver: BaseProcess) -> None:
        """Wait until a GPU of the search is ready."""
        while driver.is_alive() and "DeviceReady" not in self._events():
            time.sleep(0.02)

    def _events(self) -> list[str]:
        path = self._folder / "events"
        return path.read_text().split() if path.exists() else []

    def _doing(self) -> str:
        """Return what the driver was doing when it was killed."""
        events = self._events()
        if "DeviceReady" not in events:
            return "starting"
        num_ended = len({line["trial"] for line in self._lines()})
        return "measuring" if num_ended < NUM_TRIALS else "ending"

    def _watch(self) -> None:
        """Remember the measurements that are completed: their line in the store has its end."""
        self.completed |= {line["measurement_id"] for line in self._lines()}

    def _lines(self) -> Iterator[dict[str, str]]:
        for path in self._folder.glob("results/measurements/*.jsonl"):
            for line in path.read_bytes().rpartition(b"\n")[0].splitlines():
                yield json.loads(line)


def examine(folder: Path, killer: Killer) -> list[Measurement]:
    """Find out what the kills of a search cost; return what it measured."""
    damage = killer.damage
    with closing(ResultStore(folder / "results")) as store:
        known = store.read()
    gone = killer.completed - {m.measurement_id for m in known}
    ended = history_of(known)
    done = json.loads((folder / "done").read_text())
    untold = Counter(trial.configuration.config_hash for trial in ended.trials)
    untold.subtract(done["told"])
    damage.lost += [*gone, *(f"{n} of {name} not told" for name, n in untold.items() if n)]
    damage.num_trials = len(ended.trials)
    damage.stopped_by = done["stopped_by"]
    damage.details += done["trouble"]
    attempts = Counter((m.trial, m.phase) for m in known if m.valid)
    repeats = Counter((m.configuration, m.repeat) for m in known if m.valid)
    damage.doubled += [f"{trial} {n}" for (trial, _), n in attempts.items() if n > 1]
    damage.doubled += [
        f"{each.point.label} {each.config_hash[:6]} repeat {repeat}"
        for (each, repeat), n in repeats.items()
        if n > 1
    ]
    damage.locked = _locked(folder)
    if damage.case.tracked:
        damage.doubled += _tracked_wrongly(folder, known)
    return known


def _locked(folder: Path) -> tuple[str, ...]:
    """Return the GPUs whose clocks stay locked."""
    driver, deadline_s = DriverStore(folder / "driver"), time.monotonic() + RESTORE_TIMEOUT_S
    while driver.locked_uuids() and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return driver.locked_uuids()


def _tracked_wrongly(folder: Path, known: Sequence[Measurement]) -> list[str]:
    """Return the measurements that MLflow does not have exactly once."""
    from mlflow import MlflowClient

    uri = embedded_uri(folder.parent)
    client = MlflowClient(tracking_uri=uri)
    [experiment] = [e for e in client.search_experiments() if e.name == folder.name]
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    nested = Counter(run.data.tags.get("joulelab.measurement_id", "parent") for run in runs)
    wanted = Counter(["parent", *(m.measurement_id for m in known)])
    return [
        f"{name}: {nested[name]} runs in MLflow"
        for name in {*nested, *wanted}
        if nested[name] != wanted[name]
    ]


def compare(
    damage: Damage, number: int, known: Sequence[Measurement], twin: Sequence[Measurement]
) -> None:
    """Say whether a search that was killed found what its undisturbed twin found."""
    mine, other = history_of(known), history_of(twin)
    if damage.case.algorithm == "random":
        here, there = (Counter(t.configuration for t in h.trials) for h in (mine, other))
        damage.same_answer = here == there
        damage.details.append(f"{(here - there).total()} of {here.total()} trials are others")
        return
    best, equals, _ = _answer(damage.case, number, mine)
    twin_best, twin_equals, twin_cost = _answer(damage.case, number, other)
    damage.same_answer = best in twin_equals and twin_best in equals
    damage.apart = twin_cost(best) - twin_cost(twin_best)
    damage.details.append(
        f"{_words(best)} of {len(equals)} that cannot be told apart, undisturbed "
        f"{_words(twin_best)} of {len(twin_equals)}; {100 * damage.apart:+.2f} % EDP"
    )


def _answer(
    case: Case, number: int, history: History
) -> tuple[Configuration, set[Configuration], Callable[[Configuration], float]]:
    """Return the best, its equals, and what any costs as far as the search can tell, by logs."""
    race, model = made(case, number)
    for outcome in history.outcomes:
        race.tell(outcome)
    now = race.standing() if isinstance(race, Race) else None
    if now is None or model is None:
        raise ValueError(f"{case} gives no answer.")
    log_cost, space = model.forecast().log_cost, problem().space
    equals = {*now.members, *model.equals()}
    return now.best, equals, lambda each: float(log_cost[space.index(each)])


def _words(configuration: Configuration) -> str:
    return f"{configuration.point.label} {dict(configuration.knobs)['precision']}"


def search_kills(settings: Settings) -> list[Damage]:
    """Run the benchmark in a folder of its own, which stays if anything was lost."""
    folder = Path(tempfile.mkdtemp(prefix="jl-sk-", dir="/tmp"))
    moments = random.Random(settings.seed)  # noqa: S311 - when to kill is no secret
    found: list[Damage] = []
    _FORKS.set_forkserver_preload(["joulelab_actors.search.run", "ray.tune", "scipy.linalg"])
    try:
        with connected():
            while (left := settings.kills - sum(each.kills.total() for each in found)) > 0:
                kills = min(left, moments.randint(*KILLS))
                found.append(_one(folder, len(found), kills, moments))
                print(found[-1], file=sys.stderr, flush=True)
    finally:
        with suppress(GuardError):
            GuardClient(folder / "guard.sock", start=False).stop()
    if all(each.clean for each in found):
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"What is left is in {folder}.", file=sys.stderr)
    return found


def _one(folder: Path, number: int, kills: int, moments: random.Random) -> Damage:
    """Run one search undisturbed and once more with kills; return what these cost."""
    known = []
    for kind, most in (("undisturbed", 0), ("killed", kills)):
        (mine := folder / f"{kind}-{number}").mkdir()
        killer = Killer(mine, number, moments)
        killer.run(most)
        known.append(examine(mine, killer))
    compare(killer.damage, number, known[1], known[0])
    return killer.damage


def figures(settings: Settings | None = None) -> list[Figure]:
    """Return what the kills cost, all of which is promised to be nothing."""
    start_s, found = time.monotonic(), search_kills(settings or Settings())
    kills: Counter[str] = sum((each.kills for each in found), Counter())
    when = ", ".join(f"{n} {doing}" for doing, n in sorted(kills.items()))
    guided = [each.apart for each in found if each.case.algorithm == "model-guided"]
    how = (
        f"{kills.total()} SIGKILLs of the driver ({when}) during {len(found)} searches of "
        f"at most {NUM_TRIALS} trials, {time.monotonic() - start_s:.0f} s"
    )
    apart = f"; at most {100 * max(map(abs, guided), default=0.0):.2f} % EDP apart"
    costs = {
        "trials of a search lost by kills": sum(len(each.lost) for each in found),
        "trials of a search doubled by kills": sum(len(each.doubled) for each in found),
        "searches that spent more or less than their budget": sum(not each.whole for each in found),
        "clocks left locked by kills of searches": sum(len(each.locked) for each in found),
        "searches with another answer than undisturbed": sum(
            not each.same_answer for each in found
        ),
    }
    return [
        Figure(name=name, measured=cost, promised=0, unit="", how=how + apart * ("answer" in name))
        for name, cost in costs.items()
    ]


def main(settings: Settings) -> int:
    """Run the benchmark; the exit code is 0 if the kills cost nothing."""
    found = figures(settings)
    print_figures(found)
    return 0 if all(figure.kept for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Settings, description=__doc__)))
