#!/usr/bin/env python
"""Fit what products reach of a GPU's peak, and what an operation draws, to published rates.

Usage: python benchmarks/fit_gemm.py [DEVICE...]

Rates are those that owners of GPUs published (public/README.md): 36 products of square matrices of
random numbers in a row. What is over before the power limit acts tells the share of the peak; what
the limit holds tells the energy of an operation, if it is held. Each is pulled towards what the
catalogue has without rates. Prints both for each unit, and the rates that follow.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fit_boards import product_table
from numpy.typing import NDArray
from scipy.optimize import least_squares

from joulelab.core.cost import Pipe
from joulelab.csv_table import read_csv_table
from joulelab.estimator.pricing.power import settle
from joulelab.estimator.pricing.roofline import group_costs
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import PROCESSORS
from joulelab.hardware.scalars import value_of, with_values

RATES = Path(__file__).parent / "public" / "gemm_rates.csv"
_PIPES: dict[str, Pipe] = {
    "fp32": "fp32",
    "tf32": "tensor_tf32",
    "fp16": "tensor_fp16",
    "bf16": "tensor_bf16",
}
_SIZES = (2048, 4096, 8192, 10240)
_LEAST_SIZE = 2048  # smaller ones are over in less time than a clock takes to rise
_PRODUCTS = 36
_SHORT_S = 0.05
"""A power limit acts within about this time: 36 products of 2,048 take an L4 40 ms in fp32, at 15.4
TFLOP/s (12.5 at 4,096), and 36 of 4,096 93 ms in fp16, at 53 (69 at 2,048)."""
_PULL = 0.05
"""How far a change by a factor of e outweighs a rate that is off by as much: a rate that no limit
holds says nothing of energies, and leaves them."""
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A published rate of products on one GPU; of several sizes the best where none is named."""

    precision: str
    size: int | None
    flop_per_s: float


def main() -> int:
    """Print what fits, by device and unit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("devices", nargs="*")
    settings = parser.parse_args()
    rows = read_csv_table(RATES)
    for device in settings.devices or sorted({row["device"] for row in rows}):
        rates = read_rates(device)
        for precision in dict.fromkeys(rate.precision for rate in rates):
            _print(device, [rate for rate in rates if rate.precision == precision])
    return 0


def read_rates(device: str) -> list[Rate]:
    """Return the published rates of ``device`` that tell of it at work."""
    rows = (row for row in read_csv_table(RATES) if row["device"] == device)
    rates = [
        Rate(
            precision=row["precision"],
            size=int(row["size"]) if row["size"] else None,
            flop_per_s=float(row["tflop_per_s"]) * 1e12,
        )
        for row in rows
    ]
    return [rate for rate in rates if rate.size is None or rate.size >= _LEAST_SIZE]


def _print(device: str, rates: Sequence[Rate]) -> None:
    processor = PROCESSORS[device]
    names = scalars(rates[0].precision)
    found = fitted(processor, rates)
    there = with_values(processor, found)
    print(f"# {device}")
    for name in names:
        print(f'"{name}" = {found[name]:.4g}  # {value_of(processor, name):.4g}')
    for rate in rates:
        was, now = (predicted(one, rate) / rate.flop_per_s - 1.0 for one in (processor, there))
        label = f"{rate.precision} {rate.size or 'best'}"
        print(f"  {label}: {rate.flop_per_s / 1e12:.1f} TFLOP/s, {was:+.1%} -> {now:+.1%}")


def scalars(precision: str) -> tuple[str, str]:
    """Return the names of the share of the peak and of the energy of an operation."""
    pipe = _PIPES[precision]
    return f"timing.pipe_efficiency.{pipe}", f"power.flop_j.{pipe}"


def fitted(processor: Processor, rates: Sequence[Rate]) -> dict[str, float]:
    """Return the scalars that give ``rates``, all of one precision."""
    names = scalars(rates[0].precision)
    before = np.log([value_of(processor, name) for name in names])
    measured = np.log([rate.flop_per_s for rate in rates])

    def residuals(changes: Array) -> Array:
        there = with_values(processor, dict(zip(names, np.exp(before + changes), strict=True)))
        found = np.log([predicted(there, rate) for rate in rates])
        return np.concatenate([found - measured, _PULL * changes])

    found = least_squares(
        residuals, np.zeros(2), bounds=((-2.0, -2.0), (-before[0], 2.0)), loss="soft_l1",
        f_scale=0.1, diff_step=1e-3,
    )  # fmt: skip
    return dict(zip(names, map(float, np.exp(before + found.x)), strict=True))


def predicted(processor: Processor, rate: Rate) -> float:
    """Return the rate that ``processor`` is estimated to reach."""
    sizes = _SIZES if rate.size is None else (rate.size,)
    return max(_predicted(processor, rate, size) for size in sizes)


def _predicted(processor: Processor, rate: Rate, size: int) -> float:
    table = product_table(size, size, size, _PIPES[rate.precision])
    costs, flop = group_costs(table, processor), 2.0 * size**3
    clock_mhz = np.array([processor.default_clock_mhz])
    limits_w = np.inf, processor.default_power_limit_w
    free_s, held_s = (
        float(settle(costs, processor, clock_mhz, np.array([limit_w])).device_s[0, 0])
        for limit_w in limits_w
    )
    is_short = _PRODUCTS * flop / rate.flop_per_s < _SHORT_S
    return flop / (free_s if is_short else held_s)


if __name__ == "__main__":
    sys.exit(main())
