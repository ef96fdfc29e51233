#!/usr/bin/env python
"""What PyTorch's calls take the host in a loop, on small tensors, by number format.

Usage: PYTHONPATH=platform:actors python3 benchmarks/host_operators.py OUT.csv [--measure-s 15]

Six calls and an addition take turns in rounds of some 10 ms; medians are of rounds in which nobody
disturbed the core.
Needs PyTorch with CUDA; NVML is not used.
"""

import argparse
import csv
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch.nn import functional

from joulelab.estimator.calibration.host_speed import Call, speed_of

_FORMATS = (torch.float32, torch.bfloat16, torch.float16)
_WIDTH, _CHANNELS, _SIDE = 16, 8, 8
_GROUP = 6


def main() -> int:
    """Write one line per call and number format."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--measure-s", type=float, default=15.0, help="for each number format")
    parser.add_argument("--device", default="cuda")
    settings = parser.parse_args()
    with settings.out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["call", "dtype", "host_us", "over_add", "disturbed"])
        for dtype in _FORMATS:
            calls = {**_elementwise(dtype, settings.device), **_layers(dtype, settings.device)}
            add, rest = {"add": calls.pop("add")}, list(calls.items())
            groups = [rest[first : first + _GROUP] for first in range(0, len(rest), _GROUP)]
            for group in groups:
                found = speed_of(
                    {**add, **dict(group)}, settings.device, settings.measure_s / len(groups)
                )
                add_s = found.call_s["add"]
                for call, seconds in found.call_s.items():
                    figures = (f"{1e6 * seconds:.2f}", f"{seconds / add_s:.2f}")
                    name = str(dtype).removeprefix("torch.")
                    writer.writerow([call, name, *figures, f"{found.disturbed:.2f}"])
    return 0


def _elementwise(dtype: torch.dtype, device: str) -> dict[str, Call]:
    make = partial(torch.randn, dtype=dtype, device=device)
    one, other = make(_WIDTH, _WIDTH), make(_WIDTH, _WIDTH)
    rows = torch.arange(_WIDTH, device=device)
    mask = one > 0
    return {
        **{name: partial(getattr(torch, name), one, other) for name in ("add", "mul", "div")},
        "add_": partial(one.add_, 0.0),
        "mul_scalar": partial(torch.mul, one, 0.5),
        "pow": partial(torch.pow, one, 3.0),
        **{
            name: partial(getattr(torch, name), one)
            for name in ("neg", "rsqrt", "cos", "tanh", "sigmoid", "mean", "sum", "clone", "isnan")
        },
        **{name: partial(getattr(functional, name), one) for name in ("relu", "gelu", "silu")},
        "hardswish": partial(functional.hardswish, one),
        "relu_": partial(torch.relu_, one),
        "mean_dim": partial(torch.mean, one, -1, keepdim=True),
        "softmax": partial(torch.softmax, one, -1),
        "cat": partial(torch.cat, [one, other], -1),
        "stack": partial(torch.stack, [one, other]),
        "to_float": partial(one.to, torch.float32),
        "contiguous": lambda: one.t().contiguous(),
        "reshape_copy": lambda: one.t().reshape(-1),
        "view": partial(one.view, -1),
        "transpose": partial(one.transpose, 0, 1),
        "permute": partial(one.permute, 1, 0),
        "slice": lambda: one[:, :4],
        "select": lambda: one[0],
        "unsqueeze": partial(one.unsqueeze, 0),
        "expand": partial(one[None].expand, 2, -1, -1),
        "split": partial(one.split, 4, -1),
        "chunk": partial(one.chunk, 2, -1),
        "where": partial(torch.where, mask, one, other),
        "masked_fill": partial(one.masked_fill, mask, 0.0),
        "index": lambda: one[rows],
        "index_select": partial(one.index_select, 0, rows),
        "gather": lambda: one.gather(1, rows[:, None]),
        "embedding": partial(functional.embedding, rows, one),
        "arange": partial(torch.arange, _WIDTH, device=device),
        "zeros": partial(torch.zeros, _WIDTH, dtype=dtype, device=device),
        "empty": partial(torch.empty, _WIDTH, dtype=dtype, device=device),
        "full": partial(torch.full, (_WIDTH,), 0.5, dtype=dtype, device=device),
        "tensor_of_nothing": partial(torch.tensor, [], dtype=dtype, device=device),
        "cumsum": partial(torch.cumsum, rows, 0),
        "compare": partial(torch.lt, one, other),
        "roll": partial(torch.roll, one, 1, 0),
        "pad": partial(functional.pad, one, (1, 1)),
        "dropout_off": partial(functional.dropout, one, 0.1, training=False),
    }


def _layers(dtype: torch.dtype, device: str) -> dict[str, Call]:
    make: Callable[..., torch.Tensor] = partial(torch.randn, dtype=dtype, device=device)
    row, weight, bias = make(1, _WIDTH, _WIDTH), make(_WIDTH, _WIDTH), make(_WIDTH)
    images, channels = make(1, _CHANNELS, _SIDE, _SIDE), make(_CHANNELS)
    kernel, pixel, depth = (
        make(_CHANNELS, inputs, side, side)
        for inputs, side in ((_CHANNELS, 3), (_CHANNELS, 1), (1, 3))
    )
    statistics = (make(_CHANNELS), make(_CHANNELS).abs())
    heads = make(1, 2, _SIDE, _WIDTH)
    mask = torch.zeros(1, 1, _SIDE, _SIDE, dtype=dtype, device=device)
    attention = functional.scaled_dot_product_attention
    conv2d, linear = functional.conv2d, functional.linear
    return {
        "linear": partial(linear, row, weight),
        "linear_bias": partial(linear, row, weight, bias),
        "addmm": partial(torch.addmm, bias, row[0], weight),
        "matmul": partial(torch.matmul, heads, heads.transpose(-1, -2)),
        "bmm": partial(torch.bmm, row, row),
        "baddbmm": partial(torch.baddbmm, row, row, row),
        "conv3": partial(conv2d, images, kernel, padding=1),
        "conv3_bias": partial(conv2d, images, kernel, channels, padding=1),
        "conv1": partial(conv2d, images, pixel),
        "conv_depth": partial(conv2d, images, depth, padding=1, groups=_CHANNELS),
        "conv_depth7": partial(
            conv2d, images, make(_CHANNELS, 1, 7, 7), channels, padding=3, groups=_CHANNELS
        ),
        "conv_groups": partial(
            conv2d, images, make(_CHANNELS, 2, 3, 3), padding=1, groups=_CHANNELS // 2
        ),
        "conv_transpose": partial(functional.conv_transpose2d, images, kernel),
        "conv1d": partial(functional.conv1d, row, make(_WIDTH, _WIDTH, 3), padding=1),
        "batch_norm": partial(
            functional.batch_norm, images, *statistics, weight=channels, bias=channels
        ),
        "layer_norm": partial(functional.layer_norm, row, (_WIDTH,), bias, bias),
        "rms_norm": partial(functional.rms_norm, row, (_WIDTH,), bias),
        "group_norm": partial(functional.group_norm, images, 2, channels, channels),
        "max_pool": partial(functional.max_pool2d, images, 2),
        "avg_pool": partial(functional.avg_pool2d, images, 2),
        "adaptive_avg_pool": partial(functional.adaptive_avg_pool2d, images, 1),
        "interpolate": partial(functional.interpolate, images, scale_factor=2),
        "interpolate_bilinear": partial(
            functional.interpolate, images, scale_factor=2, mode="bilinear"
        ),
        "attention": partial(attention, heads, heads, heads),
        "attention_causal": partial(attention, heads, heads, heads, is_causal=True),
        "attention_mask": partial(attention, heads, heads, heads, attn_mask=mask),
    }


if __name__ == "__main__":
    sys.exit(main())
