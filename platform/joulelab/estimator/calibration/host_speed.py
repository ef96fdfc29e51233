"""How fast this host launches work: what an operator, a view and an empty module take on it.

Other work slows a core for milliseconds to seconds (``core/host_pace.py``). So all is measured in
short rounds, and figures are those of rounds in which the core was undisturbed.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

import torch
from torch import nn
from torch.nn import functional

from joulelab.core.host_pace import python_call_s, undisturbed_s
from joulelab.hardware.board_facts import DISTURBED_SHARE
from joulelab.hardware.processor import Figure
from joulelab.hardware.processors import HOSTS, TYPICAL, Host

_MEASURE_S = {"cuda": 12.0, "cpu": 4.0}
"""Others may slow all cores for seconds: in four of them a host seemed 1.4 times as slow."""
_ON_A_CORE_S = 0.5
_LEAST_ROUNDS = 20
_NUM_CALLS = 100
"""Of an operator in a round: a millisecond, which most disturbances outlast."""
_NUM_IDENTITIES = 20
Call = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What calls took, one after the other.

    Attributes:
        pace_s: Seconds of a call of a Python function that does nothing, before and after.
        call_s: Seconds of one call, by name.
    """

    pace_s: float
    call_s: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpeed(Round):
    """What calls take on an undisturbed core, and how often it was not.

    Attributes:
        disturbed: Share of rounds in which other work slowed the core.
    """

    disturbed: float


def measure_host(name: str) -> Host:
    """Measure this machine in seconds; without a GPU, the typical host scaled by Python's calls."""
    typical, device = HOSTS[TYPICAL], "cuda" if torch.cuda.is_available() else "cpu"
    speed = host_speed(device, _MEASURE_S[device])
    if device == "cuda":
        return _host(name, speed, speed.call_s, Figure(value=0.0, status="S", source=_source()))
    share = speed.call_s["module"] / typical.module_s
    found = {one: share * value for one, value in typical.operator_s.items()}
    source = f"{_source()}; without a GPU: the typical host, scaled by Python's own calls"
    return _host(name, speed, found, Figure(value=0.0, status="E", source=source))


def _host(name: str, speed: HostSpeed, call_s: Mapping[str, float], figure: Figure) -> Host:
    found = {one: call_s[one] for one in HOSTS[TYPICAL].operator_s}
    values = {f"operator_s.{one}": value for one, value in found.items()}
    values |= {"python.module_s": speed.call_s["module"], DISTURBED_SHARE: speed.disturbed}
    return Host(
        key=name,
        operator_s=found,
        module_s=speed.call_s["module"],
        figures={key: replace(figure, value=value) for key, value in values.items()},
    )


def _source() -> str:
    gpu = f" of one {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"measured on a host{gpu}, PyTorch {torch.__version__}"


def host_speed(device: str, measure_s: float) -> HostSpeed:
    """Measure in rounds, for ``measure_s``: calls of modules, and on a GPU those of operators."""
    calls = {"module": empty_modules(), **(operators(device) if device == "cuda" else {})}
    found = speed_of(calls, device, measure_s)
    module_s = found.call_s["module"] / (_NUM_IDENTITIES + 1)  # what holds them is a module, too
    return replace(found, call_s={**found.call_s, "module": module_s})


def speed_of(calls: Mapping[str, Call], device: str, measure_s: float) -> HostSpeed:
    """Measure ``calls`` in rounds, for ``measure_s``; a round should take some milliseconds."""
    rounds: list[Round] = []
    with torch.inference_mode():
        _round(calls, device)  # the first calls load libraries
        begin_s = moved_s = time.perf_counter()
        while len(rounds) < _LEAST_ROUNDS or time.perf_counter() < begin_s + measure_s:
            if time.perf_counter() > moved_s:
                move_to_calmest_core()
                moved_s = time.perf_counter() + _ON_A_CORE_S
            rounds.append(_round(calls, device))
    return undisturbed(rounds)


def move_to_calmest_core() -> None:
    """Move this thread to the core that others slow least now; the system may move it again.

    Stays where the system has no way to choose one.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    cores, paces_s = os.sched_getaffinity(0), {}
    try:
        for core in cores:
            os.sched_setaffinity(0, {core})
            paces_s[core] = median(python_call_s() for _ in range(5))
        os.sched_setaffinity(0, {min(paces_s, key=paces_s.__getitem__)})
    finally:
        os.sched_setaffinity(0, cores)


def _round(calls: Mapping[str, Call], device: str) -> Round:
    before_s = python_call_s()
    call_s = {name: _call_s(call, device) for name, call in calls.items()}
    return Round(pace_s=max(before_s, python_call_s()), call_s=call_s)


def undisturbed(rounds: Sequence[Round]) -> HostSpeed:
    """Return medians over the rounds in which the core was as fast as it gets."""
    limit_s = undisturbed_s([one.pace_s for one in rounds])
    calm = [one for one in rounds if one.pace_s <= limit_s]
    return HostSpeed(
        pace_s=median(one.pace_s for one in calm),
        call_s={name: median(one.call_s[name] for one in calm) for name in calm[0].call_s},
        disturbed=1 - len(calm) / len(rounds),
    )


def _call_s(call: Call, device: str) -> float:
    """Return the host's time of one call of many; the device is idle before and after."""
    _wait(device)
    begin_s = time.perf_counter()
    for _ in range(_NUM_CALLS):
        call()
    elapsed_s = time.perf_counter() - begin_s
    _wait(device)
    return elapsed_s / _NUM_CALLS


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def empty_modules() -> Call:
    """Return the call of a chain of modules that do nothing."""
    return partial(nn.Sequential(*(nn.Identity() for _ in range(_NUM_IDENTITIES))), torch.zeros(1))


def operators(device: str) -> Mapping[str, Call]:
    """Return calls of operators on small tensors, by name."""
    values, weight = (torch.randn(16, 16, device=device) for _ in range(2))
    images, kernel = (torch.randn(*shape, device=device) for shape in ((1, 8, 8, 8), (8, 8, 3, 3)))
    heads = torch.randn(1, 2, 8, 16, device=device)
    return {
        "add": partial(values.add_, 0.0),
        "view": partial(values.view, 256),
        "linear": partial(functional.linear, values, weight),
        "layer_norm": partial(functional.layer_norm, values, (16,)),
        "conv2d": partial(functional.conv2d, images, kernel, padding=1),
        "attention": partial(functional.scaled_dot_product_attention, heads, heads, heads),
    }
