#!/usr/bin/env python
"""Run the micro-benchmarks that anchor the estimator, on one GPU, at the driver's own clocks.

Usage: python benchmarks/estimator_anchors.py OUT_FOLDER [--budget-s 210] [--dry-run]

Needs PyTorch with CUDA and nvidia-ml-py, nothing else of this project. NVML is only read: no
setter is called. Each point becomes a line of ``anchors.csv`` as soon as it is measured, the most
telling first, so that a run which is cut short still serves. ``anchors.json`` says on what it ran.
"""

import argparse
import csv
import json
import platform
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Protocol

import torch
from anchor_points import Call, Point, all_points

WARM_S = 0.2
GRAPH_S = 0.02
MAX_CALLS_PER_GRAPH = 2000
EDGE_S = 0.05
"""A power sample averages some 25 ms; those nearer to the window's edges also saw its outside."""

_POINT_COLUMNS = (
    *("name", "kind", "dtype", "m", "n", "k", "window", "pixels", "batch", "elements"),
    *("moved_b", "flop", "memory_format", "mode", "data", "cold", "kinds"),
)
_ROW_COLUMNS = (
    *("time_s", "energy_j", "power_w", "counter_power_w", "sm_clock_mhz", "temperature_c"),
    *("host_s", "window_s", "num_calls", "num_samples", "error"),
)


class Sensors(Protocol):
    """What is read from the GPU."""

    def samples(self) -> list[tuple[float, float]]:
        """Return the driver's newest power samples as (wall time in seconds, watts)."""

    def energy_j(self) -> float:
        """Read the energy counter."""

    def clock_mhz(self) -> float:
        """Read the SM clock."""

    def temperature_c(self) -> float:
        """Read the GPU's temperature."""

    def describe(self) -> dict[str, object]:
        """Say what the GPU and its driver are."""


class NvmlSensors:
    """Reads NVML; calls no setter."""

    def __init__(self, uuid: str) -> None:
        import pynvml  # not needed for a trial on the CPU

        self._nvml = pynvml
        pynvml.nvmlInit()
        self._gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)

    def samples(self) -> list[tuple[float, float]]:
        """Return the buffer of power samples."""
        nvml = self._nvml
        kind, samples = nvml.nvmlDeviceGetSamples(self._gpu, nvml.NVML_TOTAL_POWER_SAMPLES, 0)
        names = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal"}
        return [
            (sample.timeStamp * 1e-6, getattr(sample.sampleValue, names[kind]) * 1e-3)
            for sample in samples
        ]

    def energy_j(self) -> float:
        """Read the energy counter."""
        return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._gpu)) * 1e-3

    def clock_mhz(self) -> float:
        """Read the SM clock."""
        return float(self._nvml.nvmlDeviceGetClockInfo(self._gpu, self._nvml.NVML_CLOCK_SM))

    def temperature_c(self) -> float:
        """Read the GPU's temperature."""
        sensor = self._nvml.NVML_TEMPERATURE_GPU
        return float(self._nvml.nvmlDeviceGetTemperature(self._gpu, sensor))

    def describe(self) -> dict[str, object]:
        """Say what the GPU and its driver are."""
        nvml, gpu = self._nvml, self._gpu
        questions: dict[str, Callable[[], object]] = {
            "device": lambda: nvml.nvmlDeviceGetName(gpu),
            "uuid": lambda: nvml.nvmlDeviceGetUUID(gpu),
            "driver": nvml.nvmlSystemGetDriverVersion,
            "vbios": lambda: nvml.nvmlDeviceGetVbiosVersion(gpu),
            "power_limit_w": lambda: nvml.nvmlDeviceGetPowerManagementLimit(gpu) * 1e-3,
            "enforced_power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) * 1e-3,
            "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM),
            "ecc": lambda: nvml.nvmlDeviceGetEccMode(gpu)[0],
        }
        answers: dict[str, object] = {}
        for name, ask in questions.items():
            with suppress(nvml.NVMLError):
                answers[name] = ask()
        return answers


class TrialSensors:
    """A GPU at constant 100 W that is not there, for a trial on the CPU."""

    def samples(self) -> list[tuple[float, float]]:
        """Return 2.4 s of samples."""
        now_s = time.time()
        return [(now_s - 0.02 * age, 100.0) for age in range(119, -1, -1)]

    def energy_j(self) -> float:
        """Return a counter that ticks every 0.1 s."""
        return 100.0 * (time.monotonic() // 0.1) * 0.1

    def clock_mhz(self) -> float:
        """Return a clock."""
        return 1000.0

    def temperature_c(self) -> float:
        """Return a temperature."""
        return 40.0

    def describe(self) -> dict[str, object]:
        """Say that nothing here was measured on a GPU."""
        return {"device": "trial on the CPU: power is made up"}


@dataclass
class Watch:
    """What was seen on the sensors during a window."""

    clocks_mhz: list[float] = field(default_factory=list)
    ticks: list[tuple[float, float]] = field(default_factory=list)

    @property
    def counter_power_w(self) -> float | None:
        """Mean power between the first and last tick of the energy counter, if there were two."""
        if len(self.ticks) < 3:
            return None
        (start_s, start_j), (stop_s, stop_j) = self.ticks[1], self.ticks[-1]
        return (stop_j - start_j) / (stop_s - start_s)


class Watcher:
    """Reads clock and energy counter in a thread while a window runs."""

    def __init__(self, sensors: Sensors) -> None:
        self._sensors = sensors
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seen = Watch()

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        polls = 0
        while not self._stop.is_set():
            now_s, energy_j = time.monotonic(), self._sensors.energy_j()
            if not self.seen.ticks or energy_j != self.seen.ticks[-1][1]:
                self.seen.ticks.append((now_s, energy_j))
            if polls % 8 == 0:
                self.seen.clocks_mhz.append(self._sensors.clock_mhz())
            polls += 1
            self._stop.wait(0.003)


@dataclass
class Runner:
    """Runs points on one device."""

    device: str
    sensors: Sensors
    window_scale: float = 1.0

    def measure(self, point: Point) -> dict[str, object]:
        """Measure ``point``; returns the columns of its row."""
        torch.backends.cuda.matmul.allow_tf32 = point.dtype == "tf32"
        torch.manual_seed(0)
        if point.mode == "idle":
            return self._idle(point)
        calls = point.make(self.device)
        for call in calls:
            call()
        self.wait()
        if point.mode == "eager":
            return self._eager(point, calls[0])
        return self._replayed(point, calls)

    def wait(self) -> None:
        """Wait until the device is done."""
        if self.device != "cpu":
            torch.cuda.synchronize()

    def _idle(self, point: Point) -> dict[str, object]:
        self.wait()
        start_s = time.time()
        with Watcher(self.sensors) as watcher:
            time.sleep(point.window_s * self.window_scale)
        return self._row(watcher.seen, start_s, time.time(), 1)

    def _eager(self, point: Point, call: Call) -> dict[str, object]:
        """Launch one call after another; nothing else runs in this process meanwhile."""
        self._repeat(call, WARM_S * self.window_scale)
        seen = Watch(clocks_mhz=[self.sensors.clock_mhz()])
        start_s, begin_s = time.time(), time.perf_counter()
        num_calls = self._repeat(call, point.window_s * self.window_scale)
        host_s = time.perf_counter() - begin_s
        self.wait()
        row = self._row(seen, start_s, time.time(), num_calls)
        return row | {"host_s": host_s / num_calls}

    def _repeat(self, call: Call, duration_s: float) -> int:
        num_calls, stop_s = 0, time.perf_counter() + duration_s
        while time.perf_counter() < stop_s:
            for _ in range(10):
                call()
            num_calls += 10
        return num_calls

    def _replayed(self, point: Point, calls: list[Call]) -> dict[str, object]:
        per_replay, replay = self._captured(calls)
        replay_s = self._time(replay, 3)
        self._time(replay, max(int(WARM_S * self.window_scale / replay_s), 1))
        replays = max(int(point.window_s * self.window_scale / replay_s), 2)
        start_s = time.time()
        with Watcher(self.sensors) as watcher:
            self._time(replay, replays)
            stop_s = time.time()
        return self._row(watcher.seen, start_s, stop_s, replays * per_replay)

    def _time(self, function: Callable[[], object], times: int) -> float:
        """Return seconds per execution."""
        self.wait()
        begin_s = time.perf_counter()
        for _ in range(times):
            function()
        self.wait()
        return (time.perf_counter() - begin_s) / times

    def _captured(self, calls: list[Call]) -> tuple[int, Callable[[], object]]:
        """Capture whole rounds of ``calls`` that take long enough; returns how many calls."""

        def run_round() -> None:
            for call in calls:
                call()

        self._time(run_round, 1)
        round_s = self._time(run_round, max(1, 8 // len(calls)))
        rounds = int(GRAPH_S * self.window_scale / round_s) + 1
        rounds = max(min(rounds, MAX_CALLS_PER_GRAPH // len(calls)), 1)

        def run_rounds() -> None:
            for _ in range(rounds):
                run_round()

        if self.device == "cpu":
            return rounds * len(calls), run_rounds
        return rounds * len(calls), _graph(run_round, run_rounds).replay

    def _row(self, seen: Watch, start_s: float, stop_s: float, num_calls: int) -> dict[str, object]:
        """Mean power from the driver's samples inside the window, else from the counter."""
        edge_s = EDGE_S * self.window_scale
        inside = [
            power_w
            for stamp_s, power_w in self.sensors.samples()
            if start_s + edge_s <= stamp_s <= stop_s
        ]
        power_w = fmean(inside) if inside else seen.counter_power_w
        time_s = (stop_s - start_s) / num_calls
        return {
            "time_s": time_s,
            "energy_j": None if power_w is None else power_w * time_s,
            "power_w": power_w,
            "counter_power_w": seen.counter_power_w,
            "sm_clock_mhz": fmean(seen.clocks_mhz) if seen.clocks_mhz else None,
            "temperature_c": self.sensors.temperature_c(),
            "window_s": stop_s - start_s,
            "num_calls": num_calls,
            "num_samples": len(inside),
        }


def _graph(warm: Callable[[], object], work: Callable[[], object]) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        warm()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    torch.cuda.synchronize()
    return graph


def main() -> int:
    """Measure every point that the budget allows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for anchors.csv and anchors.json")
    parser.add_argument("--budget-s", type=float, default=210.0, help="no point starts after it")
    parser.add_argument("--only", default="", help="only points whose name starts so")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes on the CPU, no sensors")
    settings = parser.parse_args()
    settings.out.mkdir(parents=True, exist_ok=True)
    runner = _trial_runner() if settings.dry_run else _runner()
    points = all_points(shrink=64 if settings.dry_run else 1)
    chosen = [point for point in points if point.name.startswith(settings.only)]
    _write_header(settings.out / "anchors.json", runner)
    with torch.inference_mode():
        failed = _run(runner, chosen, settings.out / "anchors.csv", settings.budget_s)
    return 1 if failed == len(chosen) else 0


def _runner() -> Runner:
    torch.empty(1, device="cuda")
    uuid = str(torch.cuda.get_device_properties(0).uuid).removeprefix("GPU-")
    runner = Runner("cuda", NvmlSensors(f"GPU-{uuid}"))
    runner.wait()
    return runner


def _trial_runner() -> Runner:
    return Runner("cpu", TrialSensors(), window_scale=0.02)


def _run(runner: Runner, points: list[Point], path: Path, budget_s: float) -> int:
    """Write one row per point; returns how many failed."""
    begin_s, failed = time.monotonic(), 0
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*_POINT_COLUMNS, *_ROW_COLUMNS], restval="")
        writer.writeheader()
        for number, point in enumerate(points):
            elapsed_s = time.monotonic() - begin_s
            if elapsed_s + point.window_s + 1.0 > budget_s:
                print(f"Budget spent before point {number} of {len(points)}.", flush=True)
                break
            row = _guarded(runner, point)
            failed += bool(row.get("error"))
            writer.writerow(_described(point) | row)
            file.flush()
            told = row.get("error") or f"{row['time_s'] * 1e6:.2f} us {row['power_w']} W"
            print(f"{elapsed_s:6.1f} s  {point.name}: {told}", flush=True)
    return failed


def _guarded(runner: Runner, point: Point) -> dict[str, object]:
    """A point that this device or PyTorch cannot run leaves its reason in the row."""
    try:
        return runner.measure(point)
    except Exception as error:  # whatever one point throws, the others must run
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    finally:
        if runner.device != "cpu":
            with suppress(RuntimeError):
                torch.cuda.empty_cache()


def _described(point: Point) -> dict[str, object]:
    return {name: getattr(point, name) for name in _POINT_COLUMNS}


def _write_header(path: Path, runner: Runner) -> None:
    header = runner.sensors.describe() | {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if runner.device != "cpu" else None,
        "python": platform.python_version(),
        "host_processor": _host_processor(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "control": "observe only: no setter was called",
        "command": " ".join(sys.argv),
    }
    path.write_text(json.dumps(header, indent=1) + "\n")


def _host_processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


if __name__ == "__main__":
    sys.exit(main())
