"""Runs code against the fake NVML library, in processes that load no other.

pynvml asks the dynamic linker for ``libnvidia-ml.so.1``, and a process keeps the one it got. So
the code under test runs in a worker process that was started with the fake library on its path;
functions travel there by value and their results and errors travel back.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import cloudpickle

SOURCE = Path(__file__).with_name("nvml.c")
H200_SM_CLOCKS_MHZ = tuple(range(1980, 344, -15))


def build(folder: Path, *flags: str) -> Path:
    """Compile the library into ``folder``; returns the folder, for ``LD_LIBRARY_PATH``."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "libnvidia-ml.so.1"
    strict = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
    command = ["cc", "-shared", "-fPIC", *strict, *flags, "-o", str(target), str(SOURCE)]
    subprocess.run([*command, "-Wl,-soname,libnvidia-ml.so.1"], check=True)
    return folder


class NvmlProcess:
    """A worker process whose NVML is the library in ``library_folder``."""

    def __init__(self, library_folder: Path) -> None:
        before = os.environ.get("LD_LIBRARY_PATH")
        os.environ["LD_LIBRARY_PATH"] = str(library_folder)
        try:
            self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
            self._pool.submit(int).result()
        finally:
            if before is None:
                del os.environ["LD_LIBRARY_PATH"]
            else:
                os.environ["LD_LIBRARY_PATH"] = before

    def call(self, root: Path, privileged: bool, function: Callable[..., Any], *args: Any) -> Any:
        """Run ``function(*args)`` there with the store at ``root``."""
        for sent in (function, *filter(callable, args)):
            if not sent.__module__.startswith("joulelab"):  # the worker cannot import tests
                cloudpickle.register_pickle_by_value(sys.modules[sent.__module__])
        environment = {
            "FAKE_NVML_STORE": str(root),
            "FAKE_NVML_PRIVILEGED": "1" if privileged else "0",
        }
        return self._pool.submit(_run, environment, cloudpickle.dumps((function, args))).result()

    def stop(self) -> None:
        self._pool.shutdown()


def _run(environment: dict[str, str], payload: bytes) -> Any:
    os.environ.update(environment)
    function, args = cloudpickle.loads(payload)
    return function(*args)


class FakeDriver:
    """A store of GPUs, and code that runs against it."""

    def __init__(self, root: Path, process: NvmlProcess | None) -> None:
        self.root = root
        self.privileged = False
        self._process = process

    def add(self, uuid: str = "GPU-aa-0", **files: str) -> "FakeGpu":
        """Put an H200 into the store; ``files`` replaces or adds files of its folder."""
        index = str(len(list(self.root.glob("*/index"))))
        gpu = h200(self.root / uuid, **{"index": index, "ecc": "1", "mig": "0", **files})
        gpu.publish_samples([(20, 129_170), (0, 128_840)])
        return gpu

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run ``function(*args)`` in a process that has this driver."""
        return self._process.call(self.root, self.privileged, function, *args)

    def run(self, function: Callable[..., Any], *args: Any, uuid: str = "GPU-aa-0") -> Any:
        """Run ``function(device, *args)`` there with the device opened and then closed."""
        return self.call(_with_device, uuid, function, *args)

    @property
    def setter_calls(self) -> list[str]:
        """Every call of a setter so far, as ``"name uuid arguments"``."""
        log = self.root / "calls"
        return log.read_text().splitlines() if log.exists() else []


def _with_device(uuid: str, function: Callable[..., Any], *args: Any) -> Any:
    from joulelab.devices.nvml import NvmlDevice

    device = NvmlDevice(uuid)
    try:
        return function(device, *args)
    finally:
        device.close()


class FakeGpu:
    """The folder of one GPU."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uuid = folder.name
        folder.mkdir(parents=True)
        self._readings: dict[str, float] = {
            "time_s": 1.0,
            "power_mw": 129_170,
            "average_power_mw": 128_966,
            "energy_mj": 2_180_585,
            "sm_clock_mhz": 1980,
            "mem_clock_mhz": 3201,
            "temperature_c": 38,
            "memory_temperature_c": 46,
            "memory_power_mw": 48_943,
            "memory_used_b": 3_006_267_392,
            "event_reasons": 1,
            "power_cap_ns": 2_162_585_920,
            "thermal_ns": 0,
            "gr_engine_active": 0.999,
            "sm_active": 0.9645,
            "sm_occupancy": 0.1425,
            "tensor_active": 0.9362,
            "dram_active": 0.165,
            "fp64_active": 0.0,
            "fp32_active": 0.0,
            "fp16_active": 0.0,
        }

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text + "\n")

    def read(self, name: str) -> str | None:
        try:
            return (self.folder / name).read_text().strip()
        except FileNotFoundError:  # a guard may take it away at any time
            return None

    def publish(self, **readings: float | None) -> None:
        """Publish readings; ``None`` takes one away."""
        for key, value in readings.items():
            self._readings.pop(key, None)
            if value is not None:
                self._readings[key] = value
        self.write(readings="\n".join(f"{k} {v}" for k, v in self._readings.items()))

    def publish_samples(self, samples: list[tuple[float, int]], *, clock: int | None = None):
        """Publish ``(age in milliseconds, power in milliwatts)``, oldest first."""
        now_us = time.clock_gettime_ns(time.CLOCK_REALTIME if clock is None else clock) // 1000
        lines = [f"{now_us - round(age_ms * 1000)} {power_mw}" for age_ms, power_mw in samples]
        self.write(samples="\n".join(lines))


def h200(folder: Path, **files: str) -> FakeGpu:
    """Make an H200 in ``folder``; ``files`` replaces or adds files there."""
    gpu = FakeGpu(folder)
    gpu.write(
        name="NVIDIA H200",
        catalogue="h200_sxm",
        index="0",
        driver_version="580.159.04",
        sm_clocks_mhz=" ".join(map(str, H200_SM_CLOCKS_MHZ)),
        mem_clocks_mhz="3201 2201",
        power_limit_range_mw="200000 700000 700000",
    )
    gpu.write(**files)
    gpu.publish()
    return gpu
