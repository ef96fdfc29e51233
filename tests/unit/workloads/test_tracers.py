"""Which processes keep PyTorch for the costs of simulated GPUs; each is one of its own."""

import fcntl
import os
import subprocess
import sys
from contextlib import ExitStack

import pytest

from joulelab.workloads.disk_cache import MOST_TRACERS, cost_from_json, user_folder
from joulelab.workloads.launch_loop import Gemm, GemmSettings

CODE = """
import sys
from joulelab.workloads.disk_cache import cost_to_json, lean_cost
from joulelab.workloads.launch_loop import Gemm, GemmSettings
print(cost_to_json(lean_cost(Gemm(GemmSettings(n=2048)))).decode())
print("torch" in sys.modules)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (folder := user_folder("costs")).mkdir(parents=True)
    return folder


def lean(folder, code=CODE):
    """Return a cost as a fresh process finds it, and whether that has PyTorch then."""
    (script := folder / "script.py").write_text(code)
    command = [sys.executable, script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    cost, has_torch = done.stdout.splitlines()
    return cost_from_json(cost.encode()), has_torch == "True"


def take_places(folder, stack):
    for number in range(MOST_TRACERS):
        file = stack.enter_context((folder / f"tracer-{number}.lock").open("w"))
        fcntl.flock(file, fcntl.LOCK_EX)


def test_few_processes_trace_costs_themselves(folder):
    assert lean(folder) == (Gemm(GemmSettings(n=2048)).cost(), True)


def test_more_than_that_have_the_same_costs_without_pytorch(folder):
    """Each of 64 simulated GPUs took 290 MB without costs on disk, and 85 with them."""
    with ExitStack() as stack:
        take_places(folder, stack)

        assert lean(folder) == (Gemm(GemmSettings(n=2048)).cost(), False)


def test_what_another_process_cannot_trace_is_traced_here(folder):
    """A class of the script that runs has no name in another process."""
    code = CODE.replace("print(cost", "class Own(Gemm): pass\nprint(cost", 1).replace(
        "(Gemm(", "(Own("
    )
    with ExitStack() as stack:
        take_places(folder, stack)

        cost, has_torch = lean(folder, code)

    assert cost == Gemm(GemmSettings(n=2048)).cost()
    assert has_torch
