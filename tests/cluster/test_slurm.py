"""joulelab in a real SLURM of three nodes on this machine: ``make test-cluster``.

However a job ends, nothing of it is left: no process, no clock that is set. What it measured is
kept, and another job that goes on with its study measures the rest, once, and recommends the same.
"""

import re
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from slurm_lab import SlurmLab, missing

from joulelab.analysis.sweep import analyse_sweep

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LACKING = missing()
CLEAN_S = 5.0
"""After so long nothing may be left of a job."""

ON_ALL = ["--nodes 3", "--gpus-per-node 2"]
CLOCKS = "--mode custom --clocks-mhz 480 780 1080 1380"
SWEEP = f"experiments/dvfs_sweep.py gemm --n 2048 {CLOCKS} --objective energy --tracking-uri none"
"""Of these clocks 1080 MHz takes the least energy by far: 0.84 J/TFLOP, 780 MHz 0.90."""


def sweep(*, repeats, num_gpus=3, study=None):
    named = "" if study is None else f" --study {study}"
    return f"{SWEEP} --repeats {repeats} --num-gpus {num_gpus}{named}"


@pytest.fixture(scope="module")
def lab():
    if LACKING:
        pytest.skip(f"a SLURM on this machine needs {LACKING}")
    folder = Path(tempfile.mkdtemp(prefix="jl-", dir="/var/tmp"))
    cluster = SlurmLab(folder)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()


def recommended(lab, study):
    """Return the clock that the stored measurements speak for."""
    [phase] = analyse_sweep(lab.store(study).read(), "energy").phases
    return phase.recommended


def assert_nothing_is_left(lab):
    time.sleep(CLEAN_S)
    assert lab.processes() == []
    assert lab.locked() == []


def assert_complete(lab, study, job):
    """Every trial of the plan has one valid measurement, and the answer is the one that is known.

    ``job`` is the one that has measured the last of it.
    """
    said = lab.log(job)
    done, planned = re.findall(r"(\d+) of (\d+) trials done", said)[-1]
    measured = lab.store(study).read()
    valid = Counter(each.trial for each in measured if each.valid)
    assert done == planned, said
    assert len(valid) == int(planned), said
    assert set(valid.values()) == {1}, said
    assert {each.trial for each in measured} == set(valid), said
    assert len(measured) == lab.num_lines(study), "a line is broken"
    assert "Traceback" not in said, said
    assert lab.store(study).read_answer() is not None, said
    assert recommended(lab, study) == "1080MHz", said


def test_a_job_measures_on_all_its_nodes_and_leaves_nothing(lab):
    job = lab.submit(sweep(repeats=2, num_gpus=6), *ON_ALL)

    ended = lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED")

    assert_nothing_is_left(lab)
    assert ended == "COMPLETED", lab.log(job)
    assert_complete(lab, f"job-{job}", job)
    measured = lab.store(f"job-{job}").read()
    assert {each.provenance.hostname for each in measured} == set(lab.nodes)
    assert all(each.valid for each in measured)
