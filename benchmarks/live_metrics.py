"""How old live metrics are when they are served, and what serving them takes of a processor.

Usage: python benchmarks/live_metrics.py [--own-gpus]

Eight GPUs of a library in the place of the driver, whose looks take what those at H200s do or more;
one's temperature is changed at moments that follow no clock: the time until a page shows the
change is the most that its values can be old. Once by the exporter of one machine, and once through
Ray, from a process of Ray's, of which one that is idle takes 0.4 percent of a core. With
--own-gpus, what the GPUs of this machine take, whose temperatures nobody changes.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
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
_COUNTER_US = 3500  # as an H200's, whose power and state take less than the library's
_NUM_CHANGES = 30
_WATCHED_S = 30.0
_POLL_S = 0.05
_SCRAPES_S = (1.0, 1.5, 2.0, 5.0)
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


def core_share(pid: int, page: str, scrape_s: float) -> float:
    """Return what share of a core a process takes while its page is scraped."""
    process = psutil.Process(pid)
    before, began_s = sum(process.cpu_times()[:2]), time.monotonic()
    while time.monotonic() < began_s + _WATCHED_S:
        temperatures_c(page)
        time.sleep(scrape_s)
    return (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began_s)


def _measured(name: str, pid: int, page: str, gpus: list[FakeGpu]) -> Iterator[Figure]:
    what = f"{len(gpus)} GPUs that cost what H200s do" if gpus else "the GPUs of this machine"
    for scrape_s in _SCRAPES_S:
        share = core_share(pid, page, scrape_s)
        how = f"{what}, {name}, scraped every {scrape_s:g} s"
        yield share_figure("live metrics, of a core", share, 1.0, how)
    if gpus:
        delays = delays_s(page, gpus[0])
        yield Figure(
            name="age of live metrics, at most",
            measured=max(delays),
            promised=2.0,
            unit="s",
            how=f"{what}, {name}, {len(delays)} changes",
        )


def _exporter_in_ray() -> int:
    return next(pid for pid, title in worker_titles().items() if "GpuMetrics" in title)


@contextmanager
def stand_ins() -> Iterator[list[FakeGpu]]:
    """Put a library in the place of the driver."""
    with tempfile.TemporaryDirectory(prefix="jl-") as folder:
        driver = FakeDriver(Path(folder, "driver"), None)
        os.environ |= {
            "LD_LIBRARY_PATH": str(build(Path(folder, "library"))),
            "FAKE_NVML_STORE": str(driver.root),
            "FAKE_NVML_COUNTER_US": str(_COUNTER_US),
        }
        yield [driver.add(f"GPU-aa-{number}") for number in range(_NUM_GPUS)]


def figures(*, own_gpus: bool = False) -> list[Figure]:
    """Measure both exporters."""
    os.environ |= {"RAY_enable_metrics_collection": "1", "RAY_metrics_report_interval_ms": "2000"}
    with nullcontext(list[FakeGpu]()) if own_gpus else stand_ins() as gpus:
        with exporting("--port", "0") as (pid, page):
            found = [*_measured("one machine", pid, page, gpus)]
        with connected():
            address = ray.get_runtime_context().gcs_address
            with exporting("--ray", RAY_ADDRESS=address) as (_, page):
                found += _measured("through Ray", _exporter_in_ray(), page, gpus)
    return found


if __name__ == "__main__":
    print_figures(figures(own_gpus="--own-gpus" in sys.argv))
