"""Wall time and memory of a whole simulated sweep, start-up included.

Usage: python benchmarks/sweep_speed.py
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from figures import Figure, print_figures

SWEEP = Path(__file__).parents[1] / "experiments" / "dvfs_sweep.py"
HOW = "110 clocks x 3 repeats of one workload on 4 simulated GPUs"


def figures() -> list[Figure]:
    """Run the sweep twice: timed and left alone, then with the memory of all it starts watched."""
    duration_s, _ = _run(lambda sweep: sweep.wait())
    _, peak_b = _run(_peak_memory_b)
    return [
        Figure(name="sweep", measured=duration_s, promised=60, unit="s", how=HOW),
        Figure(name="its memory", measured=peak_b / 2**30, promised=3, unit="GiB", how=HOW),
    ]


def _run(watch: Callable[[subprocess.Popen[bytes]], int]) -> tuple[float, int]:
    """Run one sweep under ``watch``; return its wall time and what ``watch`` returned."""
    folder = tempfile.mkdtemp(prefix="joulelab-bench-")
    command = [sys.executable, str(SWEEP), "--results-dir", folder, "--num-gpus", "4"]
    try:
        start_s = time.monotonic()
        sweep = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        seen = watch(sweep)
        duration_s = time.monotonic() - start_s
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if sweep.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {sweep.returncode}")
    return duration_s, seen


def _peak_memory_b(process: subprocess.Popen[bytes]) -> int:
    """Return the peak of the proportional memory of ``process`` and all below it."""
    peak_b = 0
    while process.poll() is None:
        peak_b = max(peak_b, _memory_b(psutil.Process(process.pid)))
        time.sleep(0.5)
    return peak_b


def _memory_b(root: psutil.Process) -> int:
    total_b = 0
    for process in [root, *root.children(recursive=True)]:
        try:
            total_b += process.memory_full_info().pss
        except psutil.Error:  # it has just ended
            continue
    return total_b


if __name__ == "__main__":
    print_figures(figures())
