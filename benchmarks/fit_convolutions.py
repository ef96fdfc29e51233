"""Fit what convolutions take on matrix units, each shape of each network by itself.

Usage: python benchmarks/fit_convolutions.py FOLDER DEVICE [--only CLASS] [--free SCALAR...]

FOLDER holds what ``measure_networks.py FOLDER --fitting`` wrote. Prints what kernels that change
layouts show of ``timing.layout_efficiency`` and ``timing.least_s.layout``, where the profile names
kernels, and then the scalars of a class with errors of its shapes: all of them, and each network's
by a fit to the others.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from fit_networks import Array, plan_of
from scipy.optimize import least_squares

from joulelab.csv_table import read_csv_table
from joulelab.estimator.pricing.kernel_class import CONVOLUTION
from joulelab.estimator.pricing.kernel_rates import pipes_of
from joulelab.estimator.pricing.layout import layout_work
from joulelab.estimator.pricing.roofline import group_costs, kernel_s, memory_side_s
from joulelab.estimator.pricing.table import WorkTable
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import PROCESSORS
from joulelab.hardware.scalars import value_of, with_values

_LAYOUTS = ("nchwToNhwc", "nhwcToNchw")
_ALIKE = 0.02
_TOLERANCE = 0.1
_LEAST_S, _MOST_S = 2e-6, 5e-5
"""Times of kernels between which errors count by the root of time."""
_BOUNDS = {"efficiency": (0.05, 1.2), "_s": (1e-12, 5e-5)}


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """Convolutions of one network: groups of its table, and what a call of each takes."""

    network: str
    clock_mhz: float
    table: WorkTable
    groups: Array
    measured_s: Array
    layout_s: Array  # of it, in kernels that change layouts; 0 where kernels have no names


def read_shapes(folder: Path) -> Iterator[Shapes]:
    """Yield the convolutions of every eager network that the trace and the profile both have."""
    with gzip.open(folder / "kernels.json.gz", "rt") as file:
        profiles = json.load(file)
    for row in read_csv_table(folder / "networks.csv"):
        profile = profiles.get(row["name"], ())
        is_plain = row["mode"] == "eager" and row["phase"] != "train"
        if is_plain and any("convolution" in one["operator"] for one in profile):
            yield from _shapes(row, profile)


def _shapes(row: Mapping[str, str], profile: Sequence[Mapping[str, Any]]) -> Iterator[Shapes]:
    table = plan_of(row).table
    counts = np.bincount(table.sequence, minlength=table.num_rows)
    calls = [one for one in profile if _is_convolution(one)]
    kept = []
    for group in range(table.num_rows):
        same = [one for one in calls if _is_like(one, table, group)]
        if same and abs(sum(one["calls"] for one in same) - counts[group]) < _ALIKE:
            kept.append((group, _per_call(same, "device_s"), _per_call(same, "layout_s")))
    if kept:
        groups, measured_s, layout_s = map(np.array, zip(*kept, strict=True))
        yield Shapes(
            network=row["network"],
            clock_mhz=float(row["sm_clock_mhz"]),
            table=table,
            groups=groups,
            measured_s=measured_s,
            layout_s=layout_s,
        )


def _is_convolution(one: Mapping[str, Any]) -> bool:
    shapes = one["shapes"]
    return one["operator"] == "cudnn_convolution" and len(shapes[0]) == len(shapes[1])


def _is_like(one: Mapping[str, Any], table: WorkTable, group: int) -> bool:
    row = table.main[group]
    operator = table.operators[row]
    shape = operator.shape
    if operator.kind != "conv" or shape is None:
        return False
    image, weight = one["shapes"][:2]
    window = prod(weight[2:])
    is_weight = (weight[0], weight[1] * window) == (shape.n * shape.batch, shape.k)
    elements = table.read_b[group] / table.element_b[row]
    return is_weight and window == shape.window and abs(prod(image) / elements - 1) < _ALIKE


def _per_call(same: Sequence[Mapping[str, Any]], column: str) -> float:
    return float(sum(_seconds(one, column) for one in same) / sum(one["calls"] for one in same))


def _seconds(one: Mapping[str, Any], column: str) -> float:
    if column != "layout_s":
        return float(one[column])
    kernels = one.get("kernels", {}).items()
    return sum(took[0] for name, took in kernels if any(each in name for each in _LAYOUTS))


def layouts_s(shapes: Shapes, processor: Processor) -> Array:
    """Return how long the estimator takes changes of layout to take."""
    pipes = pipes_of(shapes.table, processor)
    nothing = np.full(shapes.table.num_rows, np.inf)  # as if sums took longer by all else
    found = layout_work(shapes.table, processor, pipes, nothing).seconds[shapes.groups]
    return np.asarray(found)


def device_s(shapes: Shapes, processor: Processor) -> Array:
    """Return how long the estimator takes each shape to take."""
    costs = group_costs(shapes.table, processor)
    mhz = min(shapes.clock_mhz, processor.default_clock_mhz)
    clock_mhz = np.full(shapes.table.num_rows, mhz)
    memory_s = memory_side_s(costs, processor, clock_mhz)
    found = (kernel_s(costs.core_s_mhz / clock_mhz, memory_s) + costs.fixed_s)[shapes.groups]
    return np.asarray(found)


def fitted(
    names: Sequence[str], shapes: Sequence[Shapes], processor: Processor, *, layouts: bool = False
) -> Processor:
    """Return ``processor`` with the scalars ``names`` of least log errors."""
    limits = np.log([next(_BOUNDS[key] for key in _BOUNDS if key in name) for name in names]).T
    start = np.log([value_of(processor, name) for name in names])

    def there(logs: Array) -> Processor:
        return with_values(processor, dict(zip(names, np.exp(logs), strict=True)))

    def residuals(logs: Array) -> Array:
        return np.concatenate([_weighted(one, there(logs), layouts) for one in shapes])

    found = least_squares(
        residuals, np.clip(start, *limits), bounds=limits, loss="soft_l1", f_scale=_TOLERANCE
    )
    return there(found.x)


def _weighted(one: Shapes, processor: Processor, layouts: bool) -> Array:
    errors = log_errors(one, processor, layouts=layouts)
    if layouts:
        return errors
    return errors * np.sqrt(np.clip(one.measured_s, _LEAST_S, _MOST_S) / _MOST_S)


def log_errors(one: Shapes, processor: Processor, *, layouts: bool = False) -> Array:
    """Return the logarithm of estimated over profiled times, of shapes that have any."""
    if not layouts:
        return np.log(device_s(one, processor) / one.measured_s)
    estimated_s = layouts_s(one, processor)
    kept = (one.layout_s > 0) & (estimated_s > 0)
    return np.log(estimated_s[kept] / one.layout_s[kept])


def _of_class(name: str, shapes: Sequence[Shapes]) -> list[Shapes]:
    kept = []
    for one in shapes:
        own = [one.table.classes[one.table.main[group]] == name for group in one.groups]
        if any(own):
            kept.append(_only(one, np.array(own)))
    return kept


def _only(one: Shapes, own: Array) -> Shapes:
    groups, measured_s, layout_s = one.groups[own], one.measured_s[own], one.layout_s[own]
    return replace(one, groups=groups, measured_s=measured_s, layout_s=layout_s)


def _report(
    names: Sequence[str], shapes: Sequence[Shapes], processor: Processor, **how: bool
) -> None:
    best = fitted(names, shapes, processor, **how)
    errors = np.concatenate([log_errors(one, best, **how) for one in shapes])
    networks = sorted({one.network for one in shapes})
    left = []
    for network in networks:
        others = fitted(names, [one for one in shapes if one.network != network], processor, **how)
        left += [log_errors(one, others, **how) for one in shapes if one.network == network]
    print(
        f"{len(errors)} shapes of {len(networks)} networks: {np.abs(errors).mean():.1%}, "
        f"networks left out {np.abs(np.concatenate(left)).mean():.1%}"
    )
    for name in names:
        print(f"  {name} = {value_of(best, name):.4g}")


def main() -> int:
    """Print the fitted scalars and their errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("device", help="as joulelab estimate takes it")
    parser.add_argument("--only", default=CONVOLUTION, help="class of kernels")
    parser.add_argument("--free", nargs="*", default=["timing.window_s"], help="further scalars")
    settings = parser.parse_args()
    shapes, processor = list(read_shapes(settings.folder)), PROCESSORS[settings.device]
    if any(one.layout_s.any() for one in shapes):
        names = ("timing.layout_efficiency", "timing.least_s.layout")
        _report(names, shapes, processor, layouts=True)
    efficiency = f"timing.kind_efficiency.{settings.only}"
    names = (f"timing.least_s.{settings.only}", efficiency, f"{efficiency}_float32")
    _report((*names, *settings.free), _of_class(settings.only, shapes), processor)
    return 0


if __name__ == "__main__":
    sys.exit(main())
