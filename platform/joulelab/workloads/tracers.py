"""Costs traced in a process of their own where a machine has many simulated GPUs.

A process that has traced once keeps PyTorch, 200 MB of memory, for as long as it lives.
"""

import fcntl
import json
import logging
import os
import pickle
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from joulelab.core.cost import WorkloadCost
from joulelab.workloads.base import Workload
from joulelab.workloads.disk_cache import cached_cost, cost_from_json, locked, user_folder

MOST_TRACERS = 2
"""Processes of a user on a machine that may keep PyTorch for costs alone."""

_TRACE = """
import json, pickle, sys
sys.path[:] = json.loads(sys.argv[1])
kind, settings = pickle.load(sys.stdin.buffer)
from joulelab.workloads.disk_cache import cost_to_json
sys.stdout.buffer.write(b"\\n" + cost_to_json(kind(settings).cost()))
"""

_log = logging.getLogger(__name__)


def lean_cost(workload: Workload[Any]) -> WorkloadCost:
    """Return what :func:`cached_cost` does, without PyTorch where enough processes have it.

    One that has it, or is among the first that need it, traces by itself. The others have it done
    one after the other by a process that ends with it, which takes some seconds for each cost.
    """
    return cached_cost(workload, count=lambda: _count(workload))


def _count(workload: Workload[Any]) -> WorkloadCost:
    folder = user_folder("costs")
    if "torch" in sys.modules or _has_place(folder):
        return workload.cost()
    with locked(folder / "tracer"):
        found = _traced_apart(workload)
    return workload.cost() if found is None else found


def _has_place(folder: Path) -> bool:
    """Whether this process is one of those that may keep PyTorch; it is for as long as it lives."""
    try:
        return _place(folder) is not None
    except OSError:  # no file, or no lock, can be made there
        return True


@cache
def _place(folder: Path) -> int | None:
    for number in range(MOST_TRACERS):
        file = os.open(folder / f"tracer-{number}.lock", os.O_WRONLY | os.O_CREAT)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
        else:
            return file
    return None


def _traced_apart(workload: Workload[Any]) -> WorkloadCost | None:
    """Return the cost as another process finds it; ``None`` if it cannot say."""
    command = [sys.executable, "-c", _TRACE, json.dumps(sys.path)]
    try:
        asked = pickle.dumps((type(workload), workload.settings))
        done = subprocess.run(command, input=asked, capture_output=True, check=True)
        return cost_from_json(done.stdout.rpartition(b"\n")[2])
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        pickle.PicklingError,
    ) as error:
        _log.info("Tracing a %s here: %r", type(workload).__name__, error)
    except subprocess.CalledProcessError as error:
        _log.info("Tracing a %s here: %s", type(workload).__name__, error.stderr.decode()[-500:])
    return None
