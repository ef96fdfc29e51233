"""Kills the processes of a search at random moments; starts its driver again until it has ended."""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Literal

import ray
from killed_search import CASES, NUM_TRIALS, drive
from ray_workers import worker_titles
from search_damage import Damage

from joulelab.errors import GuardError
from joulelab.guard import GuardClient

Victim = Literal["driver", "actor", "trial", "guard"]
WEIGHTS: dict[Victim, int] = {"driver": 4, "actor": 3, "trial": 3, "guard": 1}
"""How often each is killed; an actor owns a GPU, and a trial is a process of Tune's."""
EARLY = 0.2
"""Share of the kills at any moment from the start of the driver's process on."""
EARLY_S, MEASURING_S = 8.0, 6.0
END_TIMEOUT_S = 300.0

_FORKS = get_context("forkserver")


def preload() -> None:
    """Have what drivers import ready before the first one starts."""
    _FORKS.set_forkserver_preload(["joulelab_actors.laboratory", "ray.tune", "scipy.linalg"])


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
            while driver.is_alive() and self.damage.kills.total() < most_kills:
                self._kill_one(driver)
                self._watch()
            driver.join(END_TIMEOUT_S)
            if driver.exitcode not in (0, -signal.SIGKILL):
                self.damage.details.append(f"the driver ended with {driver.exitcode}")
            self._watch()

    def _kill_one(self, driver: BaseProcess) -> None:
        """Kill one at a random moment, unless the driver has ended by then."""
        early = self._random.random() < EARLY
        if early:
            wait_s = self._random.uniform(0.0, EARLY_S)
        else:
            self._await_start(driver)
            wait_s = self._random.uniform(0.0, MEASURING_S)
        driver.join(wait_s)
        [victim] = self._random.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))
        pids, doing = self._pids(victim, driver), self._doing()
        if driver.is_alive() and pids:
            with suppress(ProcessLookupError):
                os.kill(self._random.choice(pids), signal.SIGKILL)
                self.damage.kills[f"{victim} while {doing}"] += 1
        if victim == "driver":
            driver.join()

    def _pids(self, victim: Victim, driver: BaseProcess) -> list[int]:
        if victim == "driver":
            return [driver.pid] if driver.pid else []
        if victim == "guard":
            with suppress(GuardError):
                return [GuardClient(self._folder.parent / "guard.sock", start=False).status().pid]
            return []
        titles = worker_titles()
        if victim == "actor":
            return [pid for pid, title in titles.items() if "GpuActor" in title]
        return [pid for pid, title in titles.items() if "Trainable" in title or "train" in title]

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
