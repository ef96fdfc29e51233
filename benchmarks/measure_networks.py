#!/usr/bin/env python
"""Measure time and energy of networks that no fit of the estimator has seen, on one GPU.

Usage: PYTHONPATH=platform:actors python3 benchmarks/measure_networks.py OUT_FOLDER
           [--budget-s 1000] [--only NAME...] [--fitting] [--channels-last | --recurrent]
           [--host-bound] [--dry-run]

Needs PyTorch with CUDA, torchvision, timm, transformers and nvidia-ml-py. NVML is only read: no
setter is called. Each case becomes a line of ``networks.csv`` as soon as it is measured, in an
order in which any first part is a cross-section; a table that is there is continued. One that
fails leaves its reason. ``networks.json`` says on what it ran, and how fast the host was.
"""

import argparse
import csv
import gzip
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # networks come from configurations alone

import fitting_networks
import network_points
import torch
from energy_poller import EnergyPoller
from estimator_anchors import NvmlSensors, Sensors, TrialSensors
from network_loops import LoopMaker
from network_points import Case, across_kinds
from network_windows import Runner

from joulelab.estimator.calibration.host_speed import host_speed

_CASE_S = {"eager": 5.0, "graph": 6.0, "compiled": 25.0, "compiled_launched": 25.0}
"""What a case must be expected to take."""

_LONGEST_CASE_S = 120
_CASE_COLUMNS = (
    *("name", "network", "family", "model", "phase", "precision", "batch", "mode", "knobs", "seen"),
)
_ROW_COLUMNS = (
    *("time_s", "time_u_s", "energy_j", "power_w", "power_u_w"),
    *("counter_energy_j", "counter_power_w", "sm_clock_mhz", "temperature_c"),
    *("host_s", "undisturbed_s", "undisturbed_power_w", "disturbed", "num_windows"),
    *("first_s", "window_s", "num_iterations", "num_samples"),
    *("peak_memory_b", "started_s", "uuid", "error"),
)


def main() -> int:
    """Measure every case that the budget allows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for networks.csv and networks.json")
    parser.add_argument("--budget-s", type=float, default=1000.0, help="no case starts after it")
    parser.add_argument("--only", nargs="+", default=[""], help="only names that start so")
    parser.add_argument(
        "--fitting",
        action="store_true",
        help="the networks that constants are fitted to, in shorter windows, and their kernels",
    )
    parser.add_argument(
        "--channels-last",
        action="store_true",
        help="convolutional networks whose images have the channels of a pixel adjacent",
    )
    parser.add_argument(
        "--recurrent", action="store_true", help="LSTMs alone, by width, batch and format"
    )
    parser.add_argument(
        "--host-bound",
        action="store_true",
        help="only what the host sets the pace of, in shorter windows and without kernels",
    )
    parser.add_argument("--dry-run", action="store_true", help="one step each on the CPU, no GPU")
    settings = parser.parse_args()
    settings.out.mkdir(parents=True, exist_ok=True)
    begin_s = time.monotonic()
    chosen = [case for case in _cases(settings) if case.name.startswith(tuple(settings.only))]
    if settings.host_bound:
        chosen = across_kinds([case for case in chosen if case.is_host_bound])
    device, sensors, uuid = _device(is_trial=settings.dry_run)
    with EnergyPoller("" if settings.dry_run else uuid) as poller:
        runner = Runner(device, sensors, poller, LoopMaker(device), uuid)
        is_short = settings.fitting or settings.host_bound
        runner.scale = 0.005 if settings.dry_run else 0.5 if is_short else 1.0
        is_profiled = settings.fitting and not (settings.dry_run or settings.host_bound)
        runner.profiles = {} if is_profiled else None
        _run(runner, chosen, settings.out, begin_s, settings.budget_s)
        if runner.profiles:
            with gzip.open(settings.out / "kernels.json.gz", "wt") as file:
                json.dump(runner.profiles, file)
    return 0


def _cases(settings: argparse.Namespace) -> list[Case]:
    networks = fitting_networks if settings.fitting else network_points
    if settings.recurrent:
        return list(networks.recurrent_cases())
    if settings.channels_last:
        return networks.channels_last_cases()
    return fitting_networks.fitting_cases() if settings.fitting else network_points.all_cases()


def _device(*, is_trial: bool) -> tuple[str, Sensors, str]:
    if is_trial:
        return "cpu", TrialSensors(), "none"
    torch.empty(1, device="cuda")
    uuid = str(torch.cuda.get_device_properties(0).uuid).removeprefix("GPU-")
    return "cuda", NvmlSensors(f"GPU-{uuid}"), f"GPU-{uuid}"


def _run(runner: Runner, cases: list[Case], out: Path, begin_s: float, budget_s: float) -> None:
    """Write one row per case that is not there yet, and how fast the host was three times."""
    path = out / "networks.csv"
    done, failed = _done(path)
    todo = [case for case in cases if case.name not in done]
    todo.sort(key=lambda case: case.name in failed)  # what has failed is tried last
    header = Header(out / "networks.json", _machine(runner))
    header.add("start", runner)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, [*_CASE_COLUMNS, *_ROW_COLUMNS], restval="")
        if not file.tell():
            writer.writeheader()
        for number, case in enumerate(todo):
            elapsed_s = time.monotonic() - begin_s
            if elapsed_s > budget_s / 2:
                header.add("middle", runner)
            if elapsed_s + _CASE_S[case.mode] > budget_s:
                continue  # another may take less
            row = _guarded(runner, case)
            if row.get("error"):  # its traceback is gone only now, and with it what it held
                runner.maker.forget()
                _empty(runner)
            writer.writerow(_described(case) | row)
            file.flush()
            print(
                f"{elapsed_s:6.1f} s {number + 1}/{len(todo)} {case.name}: {_told(row)}", flush=True
            )
            if row.get("error") and not runner.is_alive():
                sys.exit(3)  # nothing runs in this process any more; another continues
    header.add("end", runner)


def _done(path: Path) -> tuple[set[str], set[str]]:
    """Return the names of cases that a table has measured, and of those that failed."""
    if not path.is_file():
        return set(), set()
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    done = {row["name"] for row in rows if not row["error"]}
    return done, {row["name"] for row in rows} - done


def _told(row: Mapping[str, Any]) -> str:
    if row.get("error"):
        return str(row["error"])
    power = "no power" if row["power_w"] is None else f"{row['power_w']:.0f} W"
    return f"{row['time_s'] * 1e3:.4g} ms, host {row['host_s'] * 1e3:.4g} ms, {power}"


def _guarded(runner: Runner, case: Case) -> dict[str, object]:
    """A case that this device or PyTorch cannot run leaves its reason in the row."""
    try:
        with _limited(_LONGEST_CASE_S):
            return runner.measure(case)
    except Exception as error:  # whatever one case throws, the others must run
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return {"error": reason[:200], "started_s": time.time(), "uuid": runner.uuid}
    finally:
        if case.mode.startswith("compiled"):
            torch.compiler.reset()
        _empty(runner)


def _empty(runner: Runner) -> None:
    if not runner.is_trial:
        with suppress(RuntimeError):
            torch.cuda.empty_cache()


@contextmanager
def _limited(limit_s: int) -> Iterator[None]:
    """Raise in the ``with`` block if it takes longer."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"it took longer than {limit_s} s")

    before: Callable[..., Any] | int | None = signal.signal(signal.SIGALRM, stop)
    signal.alarm(limit_s)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _described(case: Case) -> dict[str, object]:
    row = {name: getattr(case, name) for name in _CASE_COLUMNS}
    return row | {"knobs": json.dumps(dict(case.knobs)), "seen": int(case.seen)}


def _machine(runner: Runner) -> dict[str, Any]:
    """Say what is measured on, and what the GPU draws with a context and nothing to do."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    return {
        **runner.sensors.describe(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": None if runner.is_trial else cudnn.version(),
        **{name: _version(name) for name in ("transformers", "torchvision", "timm", "triton")},
        "tf32": {"matmul": matmul.allow_tf32, "convolutions": cudnn.allow_tf32},
        "python": platform.python_version(),
        "host_processor": _processor(),
        "num_cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "control": "observe only: no setter was called",
        "command": " ".join(sys.argv),
        "idle": _idle(runner),
    }


def _idle(runner: Runner) -> dict[str, float | None]:
    runner.wait()
    time.sleep(2.0 * runner.scale)
    stop_s = time.time()
    inside = [power for at_s, power in runner.sensors.samples() if stop_s - at_s < 1.0]
    clock_mhz = runner.sensors.clock_mhz()
    return {"power_w": fmean(inside) if inside else None, "sm_clock_mhz": clock_mhz}


def _version(package: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(package)
    return None


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


class Header:
    """``networks.json``: one entry for each time that a table was begun or continued."""

    def __init__(self, path: Path, entry: dict[str, Any]) -> None:
        self._path = path
        self._entries = json.loads(path.read_text()) if path.is_file() else []
        self._entries.append(entry | {"host": {}})

    def add(self, when: str, runner: Runner) -> None:
        """Measure how fast the host is, once for each ``when``."""
        host = self._entries[-1]["host"]
        if when in host:
            return
        found = host_speed(runner.device, 12.0 * runner.scale)
        runner.undisturbed_s = min(found.pace_s, runner.undisturbed_s)
        host[when] = asdict(found)
        self._path.write_text(json.dumps(self._entries, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
