#!/usr/bin/env python
"""Kill governors, their programs and guards at random moments; count the clocks that stay locked.

Usage: python benchmarks/governor_kills.py [--kills 60] [--seed 1]

Each round `joulelab govern` runs around a program that holds a simulated GPU and lets it go, so
that its clock is changed at least every second, and one of them gets SIGKILL, or several: in half
of the rounds right as the clock changes. Five seconds later no clock may be locked.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import psutil
import tyro
from guard_kills import until

from joulelab.devices.simulated import DriverStore, Fault
from joulelab.guard import GuardClient, ensure_guard

Victim = Literal["governor", "program", "guard", "governor and guard", "all three"]
FREE_S, STAYS_S = 5.0, 1.0
"""By when a clock must be free, and for how long it must stay so."""
_PID = 987654


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How hard to try: rounds, and the seed of victims and moments."""

    kills: int = 60
    seed: int = 1


class Rounds:
    """Governs, kills, waits, counts; everything is in ``folder``, and so is the guard."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.random = random.Random(settings.seed)  # noqa: S311
        self.socket_path, self.store = folder / "guard.sock", folder / "driver"
        self.gpu = DriverStore(self.store).create("h200_sxm", 0)
        self.free_s: dict[str, list[float]] = defaultdict(list)
        self.num_left = 0

    def run(self) -> None:
        """Do one round."""
        victim, program = self.random.choice(get_args(Victim)), list[psutil.Process]()
        governor = self._govern()
        try:
            until(lambda: self._locked is not None, 60.0)
            if self.random.random() < 0.5:
                before = self._locked
                until(lambda: self._locked != before)
            else:
                time.sleep(self.random.uniform(0.0, 1.5))
            program = psutil.Process(governor.pid).children()
            guard = GuardClient(self.socket_path).status().pid
            pids = {
                "governor": [governor.pid],
                "program": [each.pid for each in program],
                "guard": [guard],
                "governor and guard": [governor.pid, guard],
                "all three": [governor.pid, guard, *(each.pid for each in program)],
            }[victim]
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._wait_until_free(victim)
        finally:
            governor.kill()
            governor.wait()
            for each in program:
                with suppress(psutil.NoSuchProcess):
                    each.kill()

    def _govern(self) -> subprocess.Popen[bytes]:
        faults = self.gpu.folder / "faults"
        held = Fault(kind="foreign_process", pid=_PID).line.replace(str(_PID), "$$")
        hold = f'echo "{held}" > {faults}.new; mv {faults}.new {faults}; sleep 0.7'
        given = ("--store", self.store, "--guard-socket", self.socket_path)
        options = ("--strategy", "race-to-idle", "--off-share", "0", "--quiet")
        command = [sys.executable, "-m", "joulelab.cli.main", "govern", "--device", "simulated"]
        loop = f"while :; do {hold}; : > {faults}; sleep 0.7; done"
        return subprocess.Popen(
            [*command, *map(str, given), *options, "--", "sh", "-c", loop],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def _locked(self) -> str | None:
        return self.gpu.read("locked_sm_mhz")

    def _wait_until_free(self, victim: Victim) -> None:
        """Wait until the clock is free, and stays so."""
        start_s = free_s = time.monotonic()
        while (now_s := time.monotonic()) < min(start_s + FREE_S, free_s + STAYS_S):
            if self._locked is not None:
                free_s = now_s + 0.005
            time.sleep(0.005)
        self.num_left += self._locked is not None
        self.free_s[victim].append(free_s - start_s)


def main(settings: Settings) -> int:
    """Print what came of the rounds; 1 if a clock is left locked."""
    with tempfile.TemporaryDirectory(prefix="jlk", dir="/tmp") as folder:
        rounds = Rounds(settings, Path(folder))
        try:
            for _ in range(settings.kills):
                rounds.run()
        finally:
            ensure_guard(rounds.socket_path)
            GuardClient(rounds.socket_path).stop()
    for victim, found_s in sorted(rounds.free_s.items()):
        print(f"{victim:<20}{len(found_s):>4} times, free after {max(found_s):.2f} s at most")
    print(f"{settings.kills} kills, {rounds.num_left} clocks locked {FREE_S:g} s later")
    return 1 if rounds.num_left else 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Settings, description=__doc__)))
