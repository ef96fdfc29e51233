"""How old live metrics are when they are served, and what serving them takes of a processor.

Usage: python benchmarks/live_metrics.py

Eight simulated GPUs, whose power limit is changed at moments that follow no clock: the time until a
page shows the change is the most that its values can be old. Once by the exporter of one machine,
and once through Ray, from a process of Ray's, of which one that is idle takes half a percent of a
core, and the passing on of values another half.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import psutil
import ray
from figures import Figure, print_figures, share_figure
from ray_workers import worker_titles

from joulelab.devices.simulated import DriverStore
from joulelab_actors.session import connected

_NUM_GPUS = 8
_NUM_CHANGES = 30
_WATCHED_S = 30.0
_POLL_S = 0.05
_LIMIT = re.compile(r"^\w*joulelab_gpu_power_limit_watts\{.*\} (\S+)$", re.MULTILINE)


@contextmanager
def exporting(store: DriverStore, *words: str, **environment: str) -> Iterator[tuple[int, str]]:
    """Run the command; yields its process id and its page."""
    command = [sys.executable, "-m", "joulelab.cli.main", "export-metrics", *words]
    command += ["--device", "simulated", "--store", str(store.root)]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    ) as process:
        try:
            said = process.stderr.readline() if process.stderr else ""
            if "http" not in said:
                raise RuntimeError(f"{' '.join(command)} said: {said}")
            yield process.pid, said.split()[-1]
        finally:
            process.terminate()


def limits_w(page: str) -> set[float]:
    """Return the power limits that a page serves; all of Ray's takes a parser 0.2 s."""
    with urlopen(page, timeout=60) as answer:  # noqa: S310 - our own page
        text = answer.read().decode()
    return {float(value) for value in _LIMIT.findall(text)}


def delays_s(page: str, store: DriverStore) -> list[float]:
    """Return how long changes took to show on a page."""
    delays, rng = [], np.random.default_rng(1)
    gpu = store.state(store.uuids()[0])
    for change in range(_NUM_CHANGES):
        time.sleep(float(rng.uniform(0.0, 1.0)))
        limit_w, changed_s = 400.0 + change, time.monotonic()
        gpu.limit_power(limit_w)
        while limit_w not in limits_w(page):
            time.sleep(_POLL_S)
        delays.append(time.monotonic() - changed_s)
    return delays


def core_share(pid: int, page: str) -> float:
    """Return what share of a core a process takes while its page is read every second."""
    process = psutil.Process(pid)
    before, began_s = sum(process.cpu_times()[:2]), time.monotonic()
    while time.monotonic() < began_s + _WATCHED_S:
        limits_w(page)
        time.sleep(1.0)
    return (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began_s)


def _measured(
    name: str, pid: int, page: str, store: DriverStore, most_percent: float
) -> list[Figure]:
    share, delays = core_share(pid, page), delays_s(page, store)
    how = f"{_NUM_GPUS} simulated GPUs, {name}"
    return [
        Figure(
            name="age of live metrics, at most",
            measured=max(delays),
            promised=2.0,
            unit="s",
            how=f"{how}, {len(delays)} changes",
        ),
        share_figure("live metrics, of a core", share, most_percent, f"{how}, read every second"),
    ]


def _exporter_in_ray() -> int:
    return next(pid for pid, title in worker_titles().items() if "GpuMetrics" in title)


def figures() -> list[Figure]:
    """Measure both exporters."""
    os.environ |= {"RAY_enable_metrics_collection": "1", "RAY_metrics_report_interval_ms": "1000"}
    with tempfile.TemporaryDirectory(prefix="jl-") as folder:
        store = DriverStore(Path(folder))
        for number in range(_NUM_GPUS):
            store.create("h200_sxm", number)
        with exporting(store, "--port", "0") as (pid, page):
            found = _measured("one machine", pid, page, store, 1.0)
        with connected():
            address = ray.get_runtime_context().gcs_address
            with exporting(store, "--ray", RAY_ADDRESS=address) as (_, page):
                found += _measured("through Ray", _exporter_in_ray(), page, store, 2.0)
    return found


if __name__ == "__main__":
    print_figures(figures())
