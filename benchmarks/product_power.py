#!/usr/bin/env python
"""What products of half precision draw, by what is in them and by their shape, on one GPU.

Usage: python3 benchmarks/product_power.py OUT.csv [--window-s 1.0]

Needs PyTorch with CUDA and nvidia-ml-py. NVML is only read: no setter is called. Each row is a
product that is run over and over at the driver's own clocks; power is the mean of the driver's
samples in the window. What fills the operands matters, since switching of bits takes energy.
"""

import argparse
import csv
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from estimator_anchors import NvmlSensors
from torch import Tensor

_SHAPES = (
    *((8192, 8192, 8192), (4096, 4096, 4096), (32768, 1024, 1024), (16384, 4096, 1024)),
    *((16384, 1024, 4096), (4096, 3072, 768), (4096, 50304, 1024), (256, 4096, 4096)),
)
_WARM_S, _EDGE_S = 0.7, 0.05


def _normal(*shape: int, std: float = 1.0) -> Tensor:
    return std * torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def _rectified(*shape: int) -> Tensor:
    return torch.relu(_normal(*shape))


def _smoothed(*shape: int) -> Tensor:
    return torch.nn.functional.gelu(_normal(*shape))


def _zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape, device="cuda", dtype=torch.bfloat16)


_ACTIVATIONS: Mapping[str, Callable[..., Tensor]] = {
    "normal": _normal,
    "rectified": _rectified,
    "smoothed": _smoothed,
    "zeros": _zeros,
}


def main() -> int:
    """Measure every shape with every filling."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--window-s", type=float, default=1.0)
    settings = parser.parse_args()
    torch.empty(1, device="cuda")
    sensors = NvmlSensors(f"GPU-{torch.cuda.get_device_properties(0).uuid!s}")
    with settings.out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("m", "n", "k", "data", "time_s", "power_w", "sm_clock_mhz", "num_samples"))
        for shape in _SHAPES:
            for data, activations in _ACTIVATIONS.items():
                m, n, k = shape
                call = partial(
                    torch.nn.functional.linear, activations(m, k), _normal(n, k, std=0.02)
                )
                row = _measured(call, sensors, settings.window_s)
                writer.writerow((m, n, k, data, *row))
                print(*shape, data, *row, flush=True)
                file.flush()
        _mixed(writer, sensors, settings.window_s)
    return 0


def _mixed(writer: Any, sensors: NvmlSensors, window_s: float) -> None:
    """Products in turn with a stream that takes as long: mean power of kernels that alternate."""
    inputs, weight = _normal(16384, 4096), _normal(4096, 4096, std=0.02)
    wide = _normal(1 << 28)
    product = partial(torch.nn.functional.linear, inputs, weight)
    stream = partial(torch.add, wide, 1.0)

    def both() -> None:
        product()
        stream()

    for name, call in (("product", product), ("stream", stream), ("both in turn", both)):
        row = _measured(call, sensors, window_s)
        writer.writerow((16384, 4096, 4096, name, *row))
        print(name, *row, flush=True)


def _measured(
    call: Callable[[], object], sensors: NvmlSensors, window_s: float
) -> tuple[float, float, float, int]:
    """Return time of a call, mean power, clock and number of samples in a window."""
    num, stop_s = 1, time.perf_counter() + _WARM_S
    while True:
        begin_s = time.perf_counter()
        for _ in range(num):
            call()
        torch.cuda.synchronize()
        each_s = (time.perf_counter() - begin_s) / num
        if time.perf_counter() > stop_s:
            break
        num = max(1, int(0.2 / each_s))
    num = max(1, int(window_s / each_s))
    clocks_mhz, begin_s = [], time.time()
    for _ in range(4):
        for _ in range(max(1, num // 4)):
            call()
        clocks_mhz.append(sensors.clock_mhz())
        torch.cuda.synchronize()
    stop_s = time.time()
    inside = [w for at_s, w in sensors.samples() if begin_s + _EDGE_S <= at_s <= stop_s]
    time_s = (stop_s - begin_s) / (4 * max(1, num // 4))
    return time_s, fmean(inside), fmean(clocks_mhz), len(inside)


if __name__ == "__main__":
    sys.exit(main())
