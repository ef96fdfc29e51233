"""How fast this host launches work: what an operator, a view and an empty module take on it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from statistics import median

import torch
from torch import nn
from torch.nn import functional

from joulelab.hardware.processor import Figure
from joulelab.hardware.processors import HOSTS, TYPICAL, Host

_REPEATS = 5
_NUM_CALLS = 2000
_NUM_IDENTITIES = 100
Call = Callable[[], object]


def measure_host(name: str) -> Host:
    """Measure this machine in seconds; without a GPU, the typical host scaled by Python's calls."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.inference_mode():
        module_s = _median_s(empty_modules(), _NUM_CALLS // 40, device) / _NUM_IDENTITIES
        if device == "cuda":
            calls = {name.removesuffix("_"): call for name, call in operators("cuda").items()}
            names = HOSTS[TYPICAL].operator_s
            found = {one: _median_s(calls[one], _NUM_CALLS, device) for one in names}
            return _host(name, found, module_s, Figure(value=0.0, status="S", source=_source()))
    typical = HOSTS[TYPICAL]
    share = module_s / typical.module_s
    found = {one: share * value for one, value in typical.operator_s.items()}
    source = f"{_source()}, without a GPU: the typical host, scaled by Python's own calls"
    return _host(name, found, module_s, Figure(value=0.0, status="E", source=source))


def _host(name: str, found: Mapping[str, float], module_s: float, figure: Figure) -> Host:
    values = {f"operator_s.{one}": value for one, value in found.items()}
    figures = {
        key: replace(figure, value=value)
        for key, value in {**values, "python.module_s": module_s}.items()
    }
    return Host(key=name, operator_s=dict(found), module_s=module_s, figures=figures)


def _source() -> str:
    gpu = f" of one {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"measured on a host{gpu}, PyTorch {torch.__version__}"


def _median_s(call: Call, num: int, device: str) -> float:
    call()
    return median(call_s(call, num, device) for _ in range(_REPEATS))


def call_s(call: Call, num: int, device: str) -> float:
    """Return the host's time of one of ``num`` calls; the device is idle before and after."""
    _wait(device)
    begin_s = time.perf_counter()
    for _ in range(num):
        call()
    elapsed_s = time.perf_counter() - begin_s
    _wait(device)
    return elapsed_s / num


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def empty_modules() -> Call:
    """Return the call of a hundred modules that do nothing."""
    return partial(nn.Sequential(*(nn.Identity() for _ in range(_NUM_IDENTITIES))), torch.zeros(1))


def operators(device: str) -> Mapping[str, Call]:
    """Return calls of operators on small tensors, by name."""
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
