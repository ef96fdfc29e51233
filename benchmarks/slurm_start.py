#!/usr/bin/env python
"""How long it takes from the submission of a SLURM job on four nodes to its first measurement.

Usage: python benchmarks/slurm_start.py    (as root; needs what `make test-cluster` does; no load)

The nodes are those of the cluster's tests, all on this machine, with two simulated GPUs each. The
job is a sweep of every GPU as a user submits it: Ray starts on all nodes first.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

from figures import Figure, print_figures

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from slurm_lab import SlurmLab, missing

_NUM_NODES = 4
_NUM_JOBS = 3
_SWEEP = (
    "experiments/dvfs_sweep.py gemm --n 2048 --mode custom --clocks-mhz 480 780 1080 1380 "
    f"--repeats 2 --tracking-uri none --num-gpus {2 * _NUM_NODES}"
)


def first_measured_s(lab: SlurmLab) -> float:
    """Submit a job, and return after how many seconds it had measured; waits for its end."""
    began_s = time.monotonic()
    job = lab.submit(_SWEEP, f"--nodes {_NUM_NODES}", "--gpus-per-node 2")
    lab.await_measurements(f"job-{job}", 1)
    took_s = time.monotonic() - began_s
    if (state := lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED")) != "COMPLETED":
        raise RuntimeError(f"The job is {state}: {lab.log(job)}")
    return took_s


def figures() -> list[Figure]:
    """Measure some jobs, one after the other."""
    if lacking := missing():
        raise SystemExit(f"A SLURM on this machine needs {lacking}.")
    lab = SlurmLab(Path(tempfile.mkdtemp(prefix="jl-", dir="/var/tmp")), _NUM_NODES)
    try:
        lab.up()
        took_s = [first_measured_s(lab) for _ in range(_NUM_JOBS)]
    finally:
        lab.down()
        shutil.rmtree(lab.folder, ignore_errors=True)
    how = f"SLURM of {_NUM_NODES} nodes on this machine, longest of {_NUM_JOBS} jobs"
    return [
        Figure(
            name="submission to the first measurement",
            measured=max(took_s),
            promised=60.0,
            unit="s",
            how=how,
        )
    ]


if __name__ == "__main__":
    print_figures(figures())
