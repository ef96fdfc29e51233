"""What does `joulelab run` cost a program: at its start, and while it runs?

Usage: python benchmarks/run_overhead.py                    (a simulated H200)
       python benchmarks/run_overhead.py --device nvml      (observes only; no setter is called)

While the program runs it only reads sensors, in a process of its own; what it takes of the cores is
the most that the program can lose.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from figures import Figure, print_figures

import joulelab

STARTS = 15
SHORT_S, LONG_S = 5.0, 25.0
_TELL_START = "import time; print(time.monotonic())"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where to measure.

    Attributes:
        device: Real GPUs, or a simulated one.
    """

    device: Literal["nvml", "simulated"] = "simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What `joulelab run` costs.

    Attributes:
        start_s: How much later a program's first line runs, in seconds: the median.
        core_share: Share of a core that it takes while the program runs.
    """

    start_s: float
    core_share: float


def measure(settings: Settings) -> Overhead:
    """Measure both costs."""
    with tempfile.TemporaryDirectory() as store:
        wrapped = [sys.executable, "-m", "joulelab.cli.main", "run", "--device", settings.device]
        wrapped += [] if settings.device == "nvml" else ["--store", store]
        late_s = [_start_s([*wrapped, "--"]) - _start_s([]) for _ in range(STARTS)]
        short_s, long_s = (_cpu_s([*wrapped, "--", "sleep", f"{t}"]) for t in (SHORT_S, LONG_S))
    return Overhead(
        start_s=statistics.median(late_s), core_share=(long_s - short_s) / (LONG_S - SHORT_S)
    )


def _environment() -> dict[str, str]:
    paths = [str(Path(joulelab.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _start_s(before: list[str]) -> float:
    """Return how long it takes until a program's first line, run with what stands before it."""
    began_s = time.monotonic()
    done = subprocess.run(
        [*before, sys.executable, "-c", _TELL_START],
        env=_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout) - began_s


def _cpu_s(command: list[str]) -> float:
    """Return the processors' time that a command and what it waits for take."""
    with subprocess.Popen(command, env=_environment(), stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def figures(settings: Settings | None = None) -> list[Figure]:
    """Return the figures that the project promises of `joulelab run`."""
    found = measure(settings or Settings())
    cores = os.cpu_count() or 1
    return [
        Figure(
            name="joulelab run: later start of a program",
            measured=found.start_s,
            promised=0.5,
            unit="s",
            how=f"median of {STARTS} pairs with and without it",
        ),
        Figure(
            name="joulelab run: time of a program that keeps all cores busy",
            measured=100 * found.core_share / cores,
            promised=1.0,
            unit="%",
            how=f"it takes {100 * found.core_share:.1f} % of one of {cores} cores, as {LONG_S:g} "
            f"and {SHORT_S:g} s of a waiting program tell",
        ),
    ]


if __name__ == "__main__":
    print_figures(figures(tyro.cli(Settings)))
