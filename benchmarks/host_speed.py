"""How fast a host launches work: what an operator, a launch and a call from Python take on it."""

from collections.abc import Callable
from functools import partial
from statistics import fmean, median, pstdev

import torch

from joulelab.estimator.calibration.host_speed import call_s, empty_modules, operators

_REPEATS = 5
_NUM_KERNELS = 1000
_NUM_IDENTITIES = 100
Call = Callable[[], object]


def host_speed(device: str, num_calls: int = 2000) -> dict[str, dict[str, float]]:
    """Return seconds per call of every benchmark: their median over repeats, and the spread."""
    with torch.inference_mode():
        return {
            name: _summary([call_s(call, num, device) * num / units for _ in range(_REPEATS)])
            for name, (call, num, units) in _benchmarks(device, num_calls).items()
        }


def launch_s(device: str) -> float:
    """Return the time that launching one tiny kernel takes now, in a few milliseconds."""
    with torch.inference_mode():
        call = partial(torch.zeros(16, device=device).add_, 1)
        return median(call_s(call, 200, device) for _ in range(3))


def _summary(times_s: list[float]) -> dict[str, float]:
    mean_s = fmean(times_s)
    return {
        "median_s": median(times_s),
        "lowest_s": min(times_s),
        "highest_s": max(times_s),
        "spread": pstdev(times_s) / mean_s if mean_s else 0.0,
    }


def _benchmarks(device: str, num: int) -> dict[str, tuple[Call, int, int]]:
    """Return by name what to call, how often, and how many units that is together."""
    chains = max(num // 40, 1)
    found: dict[str, tuple[Call, int, int]] = {
        "python loop iteration": (partial(_count, num), 20, 20 * num),
        "python function call": (partial(_calls, num), 20, 20 * num),
        "module call": (empty_modules(), chains, chains * _NUM_IDENTITIES),
    }
    for place in dict.fromkeys(("cpu", device)):
        for name, call in operators(place).items():
            found[f"{place} {name}"] = (call, num, num)
    if device == "cuda":
        found["cuda graph kernel"] = (_graph(), 1, _NUM_KERNELS)
    for call, _, _ in found.values():
        call()
    return found


def _count(num: int) -> int:
    total = 0
    for index in range(num):
        total += index & 3
    return total


def _nothing() -> None:
    pass


def _calls(num: int) -> None:
    for _ in range(num):
        _nothing()


def _graph() -> Call:
    """Return the replay of a graph of tiny kernels, which waits until they are done."""
    values = torch.zeros(16, device="cuda")
    values.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_NUM_KERNELS):
            values.add_(1)

    def replay() -> None:
        graph.replay()
        torch.cuda.synchronize()

    return replay
