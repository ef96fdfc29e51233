#!/usr/bin/env python
"""What reading ahead for the next program saves of a GPU's time, and does to the present one.

Usage: python benchmarks/loading_ahead.py [--read-s 20] [--file-gb 1] [--longest-s 60]

A plan of four programs in random blocks runs on a simulated GPU whose disk takes a time for each
program's weights, and the copy to the GPU a fourth of that; nothing stays in memory from one load
to the next. Then this machine runs a program that waits for its host, while a file that is not in
memory is read ahead, in spells with and without.
"""

import itertools
import os
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import tyro
from figures import Figure, print_figures
from typing_extensions import override

from joulelab.bench import Bench
from joulelab.core.clock import Clock
from joulelab.core.configuration import Configuration
from joulelab.core.measurement import Measurement
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.devices.simulated import DriverStore, SimulatedDevice
from joulelab.devices.simulated.played import PlayedWorkload
from joulelab.sampling.spells import MeteringCost
from joulelab.workloads.base import Workload
from joulelab.workloads.read_ahead import FileReading, Reading

PROGRAMS = (
    ("bert", {"batch": 8}),
    ("vit", {"batch": 16}),
    ("llama", {"model": "tinyllama", "batch": 4, "new_tokens": 16}),
    ("resnet50", {"batch": 16}),
)
REPEATS = 3
_COPY_SHARE = 0.25


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is planted and measured.

    Attributes:
        read_s: Time that the disk takes for the weights of each program.
        file_gb: Size of the file that is read, in 1e9 bytes.
        longest_s: How long spells go on at most, beside a reader that reads and one that is halted.
    """

    read_s: float = 20.0
    file_gb: float = 1.0
    longest_s: float = 60.0


class Disk:
    """How long each program's weights have been read so far."""

    def __init__(self, clock: Clock, read_s: float) -> None:
        self.clock, self.read_s = clock, read_s
        self.done_s: dict[object, float] = defaultdict(float)
        self.waited_s = 0.0

    def load(self, program: object) -> None:
        """Have the program wait for what was not read yet, and for the copy."""
        left_s = max(0.0, self.read_s - self.done_s.pop(program, 0.0))
        wait_s = left_s + _COPY_SHARE * self.read_s
        self.waited_s += wait_s
        self.clock.sleep_s(wait_s)


class Planted(Reading):
    """Reads a program's weights in the device's time."""

    def __init__(self, disk: Disk, program: object) -> None:
        self._disk, self._program, self._since_s = disk, program, disk.clock.now_s()

    @override
    def go_on(self) -> None:
        self._since_s = self._disk.clock.now_s()

    @override
    def halt(self) -> None:
        self._disk.done_s[self._program] += self._disk.clock.now_s() - self._since_s

    @override
    def close(self) -> None:
        self.halt()
        self._since_s = self._disk.clock.now_s()


class Loaded(PlayedWorkload):
    """A program whose weights are on the disk."""

    disk: Disk

    @property
    def program(self) -> object:
        """What its weights are of."""
        return type(self._workload)

    @override
    def prepare(self) -> None:
        self.disk.load(self.program)
        super().prepare()

    @override
    def read_ahead(self) -> Reading:
        return Planted(self.disk, self.program)


class DiskDevice(SimulatedDevice):
    """A simulated GPU of a machine with such a disk."""

    disk: Disk

    @override
    def host(self, workload: Workload[Any]) -> Workload[Any]:
        loaded = Loaded((self.machine,), workload)
        loaded.disk = self.disk
        return loaded


def carried_out(settings: Settings, *, is_ahead: bool) -> tuple[float, float, list[Measurement]]:
    """Carry the plan out; return seconds of the GPU, how many it waited, and what was measured."""
    with tempfile.TemporaryDirectory() as store:
        device = DiskDevice(DriverStore(store).create("h200_sxm", 0))
        device.disk = Disk(device.clock, settings.read_s)
        start_s, found = device.clock.now_s(), []
        with Bench(device, procedure=Procedure()) as bench:
            for trial, following in itertools.pairwise([*_plan(), None]):
                if is_ahead and following is not None:
                    bench.expect(following.configuration)
                found += [record.measurement for record in bench.measure(trial)]
        return device.clock.now_s() - start_s, device.disk.waited_s, found


def _plan() -> list[Trial]:
    random, trials = Random(0), list[Trial]()  # noqa: S311 - an order
    for repeat in range(REPEATS):
        for name, knobs in random.sample(PROGRAMS, len(PROGRAMS)):
            asked = Configuration.of(name, knobs)
            trials.append(Trial(study="ahead", name=f"{name}-{repeat}", configuration=asked))
    return trials


def slowdown(settings: Settings, *, is_halted: bool) -> tuple[float, float]:
    """Return by how much a program that waits for its host is slower beside a reader, and +-."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        block = np.random.default_rng(0).bytes(1 << 24)
        with path.open("wb") as file:
            for _ in range(int(settings.file_gb * 1e9) >> 24):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())

        pairs, start_s = list[tuple[float, float]](), time.monotonic()
        while len(pairs) < _FEWEST_PAIRS or time.monotonic() < start_s + settings.longest_s:
            order = (True, False) if len(pairs) % 2 else (False, True)  # a drift cancels
            found = {beside: _unit_s(path, beside=beside, is_halted=is_halted) for beside in order}
            pairs.append((found[True], found[False]))
    cost = MeteringCost(pairs=tuple(pairs)).slowdown
    return cost.value, cost.half_width


_FEWEST_PAIRS, _SPELL_S, _BEGUN_S = 6, 0.3, 0.3


def _unit_s(path: Path, *, beside: bool, is_halted: bool) -> float:
    """Return a run's CPU time in a spell before which all is the same, but the reader.

    That is its pace on a core of its own; what others take of the core says nothing of the reader.
    """
    _evict(path)
    reading = FileReading(str(path.parent)) if beside else None
    time.sleep(_BEGUN_S)  # until it reads
    if reading is not None and is_halted:
        reading.halt()
    start_s, num = time.thread_time(), 0.0
    while time.thread_time() < start_s + _SPELL_S:
        num += _run()
    taken_s = time.thread_time() - start_s
    if reading is not None:
        reading.close()
    return taken_s / num


def _evict(path: Path) -> None:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


_SMALL = np.ones((16, 16))


def _run() -> float:
    """Launch a thousand small products, as an eager loop does: Python sets its pace."""
    for _ in range(1000):
        _SMALL @ _SMALL
    return 1.0


def figures(settings: Settings | None = None) -> list[Figure]:
    """Measure what is promised."""
    settings = settings or Settings()
    before_s, waited_s, whole = carried_out(settings, is_ahead=False)
    after_s, still_s, ahead = carried_out(settings, is_ahead=True)
    off = [b.energy_per_unit_j / a.energy_per_unit_j - 1 for a, b in zip(whole, ahead, strict=True)]
    u = [
        np.hypot(a.energy_per_unit_u_j, b.energy_per_unit_u_j) / a.energy_per_unit_j
        for a, b in zip(whole, ahead, strict=True)
    ]
    found = [
        Figure(
            name="time of a GPU for four programs in three blocks, over that without reading ahead",
            measured=after_s / before_s,
            promised=0.9,
            unit="",
            how=f"{before_s:.0f} -> {after_s:.0f} s, of which it waited {waited_s:.0f} -> "
            f"{still_s:.0f} s; weights take {settings.read_s:g} s to read and a fourth to copy",
        ),
        Figure(
            name="energies with and without, mean difference",
            measured=100 * abs(float(np.mean(off))),
            promised=0.1,
            unit="%",
            how=f"{len(off)} phases, {100 * float(np.std(off)):.2f} % rms, of which "
            f"{100 * float(np.sqrt(np.mean(np.square(u)))):.2f} % are stated",
        ),
    ]
    for is_halted, where, most in ((True, "in windows", 0.5), (False, "in warm-ups", inf)):
        mean, half = slowdown(settings, is_halted=is_halted)
        load = f"on {os.cpu_count()} cores at load {os.getloadavg()[0]:.0f}"
        how = f"+- {100 * half:.2f} % (95 %), {load}"
        name = f"CPU time of a host-bound program beside a reader, {where}"
        found.append(Figure(name=name, measured=100 * mean, promised=most, unit="%", how=how))
    return found


if __name__ == "__main__":
    print_figures(figures(tyro.cli(Settings, description=__doc__)))
