"""How old live metrics are when they are served, and what serving them takes of a processor.

Usage: python benchmarks/live_metrics.py

Eight GPUs of a library in the place of the driver, whose calls keep a core busy as an H200 does;
one's temperature is changed at moments that follow no clock: the time until a page shows the change
is the most that its values can be old. Once by the exporter of one machine, and once through Ray,
from a process of Ray's, of which one that is idle takes 0.6 percent of a core.
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

from joulelab_actors.session import connected

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from fake_nvml.driver import FakeDriver, FakeGpu, build

_NUM_GPUS = 8
_NUM_CHANGES = 30
_WATCHED_S = 30.0
_POLL_S = 0.05
_SCRAPE_S = 1.5  # a page is half a second old at most: what a database has is two seconds old then
_TEMPERATURE = re.compile(r"^\w*joulelab_gpu_temperature_celsius\{.*\} (\S+)$", re.MULTILINE)


@contextmanager
def exporting(*words: str, **environment: str) -> Iterator[tuple[int, str]]:
    """Run the command; yields its process id and its page."""
    command = [sys.executable, "-m", "joulelab.cli.main", "export-metrics", *words]
    command += ["--device", "nvml"]
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


def temperatures_c(page: str) -> set[float]:
    """Return the temperatures that a page serves; all of Ray's takes a parser 0.2 s."""
    with urlopen(page, timeout=60) as answer:  # noqa: S310 - our own page
        text = answer.read().decode()
    return {float(value) for value in _TEMPERATURE.findall(text)}


def delays_s(page: str, gpu: FakeGpu) -> list[float]:
    """Return how long changes took to show on a page."""
    delays, rng = [], np.random.default_rng(1)
    for change in range(_NUM_CHANGES):
        time.sleep(float(rng.uniform(0.0, 1.0)))
        temperature_c, changed_s = 40.0 + change, time.monotonic()
        gpu.publish(temperature_c=temperature_c)
        while temperature_c not in temperatures_c(page):
            time.sleep(_POLL_S)
        delays.append(time.monotonic() - changed_s)
    return delays


def core_share(pid: int, page: str) -> float:
    """Return what share of a core a process takes while its page is scraped."""
    process = psutil.Process(pid)
    before, began_s = sum(process.cpu_times()[:2]), time.monotonic()
    while time.monotonic() < began_s + _WATCHED_S:
        temperatures_c(page)
        time.sleep(_SCRAPE_S)
    return (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began_s)


def _measured(name: str, pid: int, page: str, gpu: FakeGpu, most_percent: float) -> list[Figure]:
    share, delays = core_share(pid, page), delays_s(page, gpu)
    how = f"{_NUM_GPUS} GPUs that cost what H200s do, {name}"
    return [
        Figure(
            name="age of live metrics, at most",
            measured=max(delays),
            promised=2.0,
            unit="s",
            how=f"{how}, {len(delays)} changes",
        ),
        share_figure(
            "live metrics, of a core", share, most_percent, f"{how}, scraped every {_SCRAPE_S} s"
        ),
    ]


def _exporter_in_ray() -> int:
    return next(pid for pid, title in worker_titles().items() if "GpuMetrics" in title)


def figures() -> list[Figure]:
    """Measure both exporters."""
    with tempfile.TemporaryDirectory(prefix="jl-") as folder:
        driver = FakeDriver(Path(folder, "driver"), None)
        gpus = [driver.add(f"GPU-aa-{number}") for number in range(_NUM_GPUS)]
        os.environ |= {
            "RAY_enable_metrics_collection": "1",
            "RAY_metrics_report_interval_ms": "1000",
            "LD_LIBRARY_PATH": str(build(Path(folder, "library"))),
            "FAKE_NVML_STORE": str(driver.root),
            "FAKE_NVML_COSTS": "1",
        }
        with exporting("--port", "0") as (pid, page):
            found = _measured("one machine", pid, page, gpus[0], 1.0)
        with connected():
            address = ray.get_runtime_context().gcs_address
            with exporting("--ray", RAY_ADDRESS=address) as (_, page):
                found += _measured("through Ray", _exporter_in_ray(), page, gpus[0], 2.0)
    return found


if __name__ == "__main__":
    print_figures(figures())
