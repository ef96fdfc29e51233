"""How fast a host launches work: what an operator, a launch and a call from Python take on it."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import fmean, median, pstdev

import torch
from torch import nn
from torch.nn import functional

_REPEATS = 5
_NUM_KERNELS = 1000
_NUM_IDENTITIES = 100
Call = Callable[[], object]


def host_speed(device: str, num_calls: int = 2000) -> dict[str, dict[str, float]]:
    """Return seconds per call of every benchmark: their median over repeats, and the spread."""
    with torch.inference_mode():
        return {
            name: _summary([_time(call, num, device) / units for _ in range(_REPEATS)])
            for name, (call, num, units) in _benchmarks(device, num_calls).items()
        }


def launch_s(device: str) -> float:
    """Return the time that launching one tiny kernel takes now, in a few milliseconds."""
    with torch.inference_mode():
        call = partial(torch.zeros(16, device=device).add_, 1)
        return median(_time(call, 200, device) / 200 for _ in range(3))


def _summary(times_s: list[float]) -> dict[str, float]:
    mean_s = fmean(times_s)
    return {
        "median_s": median(times_s),
        "lowest_s": min(times_s),
        "highest_s": max(times_s),
        "spread": pstdev(times_s) / mean_s if mean_s else 0.0,
    }


def _time(call: Call, num: int, device: str) -> float:
    """Return the host's time of ``num`` calls; the device is idle before and after."""
    _wait(device)
    begin_s = time.perf_counter()
    for _ in range(num):
        call()
    elapsed_s = time.perf_counter() - begin_s
    _wait(device)
    return elapsed_s


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _benchmarks(device: str, num: int) -> dict[str, tuple[Call, int, int]]:
    """Return by name what to call, how often, and how many units that is together."""
    chains = max(num // 40, 1)
    identities = nn.Sequential(*(nn.Identity() for _ in range(_NUM_IDENTITIES)))
    found: dict[str, tuple[Call, int, int]] = {
        "python loop iteration": (partial(_count, num), 20, 20 * num),
        "python function call": (partial(_calls, num), 20, 20 * num),
        "module call": (partial(identities, torch.zeros(1)), chains, chains * _NUM_IDENTITIES),
    }
    for place in dict.fromkeys(("cpu", device)):
        for name, call in _operators(place).items():
            found[f"{place} {name}"] = (call, num, num)
    if device == "cuda":
        found["cuda graph kernel"] = (_graph(), 1, _NUM_KERNELS)
    for call, _, _ in found.values():
        call()
    return found


def _operators(device: str) -> Mapping[str, Call]:
    values, weight = (torch.randn(16, 16, device=device) for _ in range(2))
    images, kernel = (torch.randn(*shape, device=device) for shape in ((1, 8, 8, 8), (8, 8, 3, 3)))
    heads = torch.randn(1, 2, 8, 16, device=device)
    return {
        "add_": partial(values.add_, 0.0),
        "mul": partial(torch.mul, values, weight),
        "view": partial(values.view, 256),
        "linear": partial(functional.linear, values, weight),
        "layer_norm": partial(functional.layer_norm, values, (16,)),
        "conv2d": partial(functional.conv2d, images, kernel, padding=1),
        "attention": partial(functional.scaled_dot_product_attention, heads, heads, heads),
        "empty": partial(torch.empty, 16, device=device),
    }


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
