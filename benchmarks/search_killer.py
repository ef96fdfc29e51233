"""Kills the driver of a search at random moments, and starts it again until it has ended."""

import json
import random
import signal
import time
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import ray
from killed_search import CASES, NUM_TRIALS, drive
from search_damage import Damage

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
