#!/usr/bin/env python
"""What each operator of a program takes its host, and how often Python is called around them.

Usage: PYTHONPATH=platform:actors python3 benchmarks/host_profile.py OUT.json.gz
           [--budget-s 300] [--only NAME...] [--dry-run]

Programs are those that factors of hosts are fitted to. Each runs without a profiler, then with
PyTorch's, which looks at the host alone, in steps of which those on an undisturbed core count.
Needs what ``measure_networks.py`` needs; NVML is not used.
"""

import argparse
import gzip
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import torch
from fitting_networks import fitting_cases
from network_loops import Loop, LoopMaker
from network_points import Case, across_kinds
from torch.profiler import ProfilerActivity, profile, record_function

from joulelab.core.host_pace import python_call_s, undisturbed_s
from joulelab.estimator.calibration.host_speed import host_speed, move_to_calmest_core

_STEPS = 24
_PROFILED = 8
_STEP = "one step"
_CASE_S = 8.0


def main() -> int:
    """Profile every program that the budget allows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--budget-s", type=float, default=300.0, help="no case starts after it")
    parser.add_argument("--only", nargs="+", default=[""], help="only names that start so")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, cut short")
    settings = parser.parse_args()
    begin_s, device = time.monotonic(), "cpu" if settings.dry_run else "cuda"
    host, maker = host_speed(device, 0.1 if settings.dry_run else 4.0), LoopMaker(device)
    found: dict[str, Any] = {"host": {"pace_s": host.pace_s, "call_s": dict(host.call_s)}}
    for case in _cases():
        if not case.name.startswith(tuple(settings.only)):
            continue
        if time.monotonic() - begin_s + _CASE_S > settings.budget_s:
            break
        try:
            entry = _profiled(maker, case, is_trial=settings.dry_run)
        except Exception as error:  # whatever one program throws, the others must run
            entry = {"error": f"{type(error).__name__}: {error}"[:200]}
            maker.forget()
        found[case.name] = entry
        print(f"{time.monotonic() - begin_s:6.1f} s {case.name} {_line(entry)}", flush=True)
        with gzip.open(settings.out, "wt") as file:
            json.dump(found, file)
    return 0


def _cases() -> list[Case]:
    return across_kinds(
        [case for case in fitting_cases() if case.is_host_bound and case.phase != "train"]
    )


def _line(entry: Mapping[str, Any]) -> str:
    if "error" in entry:
        return str(entry["error"])
    own_s = sum(seconds for _, seconds in entry["operators"].values())
    return (
        f"{1e3 * entry['step_s']:.2f} ms (calm {entry['calm']} of {_STEPS}), profiled"
        f" {1e3 * entry['profiled_s']:.2f} ms, of it operators {1e3 * own_s:.2f} ms;"
        f" {entry['python_calls']} calls in Python, {entry['native_calls']} out of it"
    )


def _profiled(maker: LoopMaker, case: Case, *, is_trial: bool) -> dict[str, Any]:
    loop = maker.make(case, longest=8, batch=1) if is_trial else maker.make(case)
    with loop.context():
        for _ in range(max(3, loop.period if not is_trial else 1)):
            loop.step()
        _wait(maker.device)
        move_to_calmest_core()
        paces_s, steps_s = _steps(loop, maker.device)
        calm = _calm(paces_s)
        python_calls, native_calls = _calls(loop.step)
        return {
            "step_s": median(steps_s[index] for index in calm),
            "calm": len(calm),
            "python_calls": python_calls,
            "native_calls": native_calls,
            **_operators(loop, maker.device),
        }


def _steps(loop: Loop, device: str) -> tuple[list[float], list[float]]:
    """Return the core's pace around each of some steps, and what each took the host alone."""
    paces_s, steps_s = [], []
    for _ in range(_STEPS):
        _wait(device)
        before_s, begin_s = python_call_s(), time.perf_counter()
        loop.step()
        steps_s.append(time.perf_counter() - begin_s)
        paces_s.append(max(before_s, python_call_s()))
    return paces_s, steps_s


def _calm(paces_s: list[float]) -> list[int]:
    limit_s = undisturbed_s(paces_s)
    return [index for index, pace_s in enumerate(paces_s) if pace_s <= limit_s]


def _operators(loop: Loop, device: str) -> dict[str, Any]:
    """Return calls and seconds of each operator itself, medians over steps on a calm core."""
    paces_s = []
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(_PROFILED):
            _wait(device)
            before_s = python_call_s()
            with record_function(_STEP):
                loop.step()
            paces_s.append(max(before_s, python_call_s()))
        _wait(device)
    steps = _by_step(profiled.events())
    calm = [steps[index] for index in _calm(paces_s)]
    names = sorted({name for step in calm for name in step["own"]})
    own = {
        name: [median(step["own"][name][part] for step in calm) for part in (0, 1)]
        for name in names
    }
    return {
        "profiled_s": median(step["all_s"] for step in calm),
        "outside_s": median(step["outside_s"] for step in calm),
        "operators": own,
    }


def _by_step(events: Any) -> list[dict[str, Any]]:
    """Return each step's time, its time outside of operators, and (calls, seconds) by operator."""
    marks = sorted(
        (event for event in events if event.name == _STEP), key=lambda event: event.time_range.start
    )
    steps: list[dict[str, Any]] = [
        {
            "all_s": 1e-6 * mark.cpu_time_total,
            "outside_s": 1e-6 * mark.self_cpu_time_total,
            "own": defaultdict(lambda: [0, 0.0]),
        }
        for mark in marks
    ]
    for event in events:
        at = event.time_range.start
        for mark, step in zip(marks, steps, strict=True):
            if event.name != _STEP and mark.time_range.start <= at < mark.time_range.end:
                total = step["own"][event.name.removeprefix("aten::")]
                total[0] += 1
                total[1] += 1e-6 * event.self_cpu_time_total
    return steps


def _calls(step: Callable[[], object]) -> tuple[int, int]:
    """Return how many functions one step calls in Python, and how many outside of it."""
    counts: dict[str, int] = defaultdict(int)

    def count(_frame: object, event: str, _argument: object) -> None:
        counts[event] += 1

    sys.setprofile(count)
    try:
        step()
    finally:
        sys.setprofile(None)
    return counts["call"], counts["c_call"]


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main())
