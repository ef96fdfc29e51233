"""Fit how fast kernels run within networks to profiles of networks that do not test the estimator.

Usage: python benchmarks/fit_networks.py FOLDER [--device h100_sxm]

FOLDER holds what ``measure_networks.py FOLDER --fitting`` wrote. Prints lines for the data file of
the GPU: one efficiency for each class of kernels and number format, and its least time.
"""

import argparse
import csv
import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.optimize import least_squares

from joulelab.estimator.estimate import Mode
from joulelab.estimator.models import trace_model
from joulelab.estimator.pricing.roofline import group_costs, kernel_s, memory_side_s
from joulelab.estimator.pricing.run import Plan, plan
from joulelab.estimator.pricing.table import WorkTable, kernel_class, tabulate
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import PROCESSORS
from joulelab.hardware.scalars import with_values
from joulelab.tracing.calls import kind_of
from joulelab.tracing.program import MatrixShape, Operator

_ROOT = Path(__file__).parents[1]
_TOGETHER = {"rearrangement": "copying"}
"""Classes that a profile does not tell apart."""
_OF_PIPES = ("product",)
"""Classes that reach what their pipe does, which is measured with large products."""
_NO_KERNELS = ("Activity Buffer", "Runtime", "cuda", "Lazy", "Command", "ProfilerStep")
_LEAST_CASES = 3
_CALLS_APART = 0.25
"""Share by which a profile may have more or fewer kernels of a class than the trace."""
_PULL = 0.02
"""How far, in logarithms, a case of evidence outweighs the value from kernels in loops."""
_TOLERANCE = 0.1
Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What kernels of one class take within one network: as profiled, and what was to be done.

    Attributes:
        clock_mhz: Core clock at which the network ran.
    """

    network: str
    clock_mhz: float
    measured_s: float
    table: WorkTable


def main() -> int:
    """Print the fitted lines, and how far each class is off before and after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="h100_sxm", help="as joulelab estimate takes it")
    settings = parser.parse_args()
    evidence = read_evidence(settings.folder)
    processor = PROCESSORS[settings.device]
    console = Console(width=130)
    for name, found in sorted(evidence.items()):
        if len(found) >= _LEAST_CASES and name != kind_of(name):
            values = fitted(name, found, processor)
            source = f"one {processor.product_name} (experiments/results/{settings.folder.name})"
            _print(console, (name, source), found, processor, values)
    return 0


def read_evidence(folder: Path) -> dict[str, list[Evidence]]:
    """Return the evidence of every class."""
    with gzip.open(folder / "kernels.json.gz", "rt") as file:
        profiles = json.load(file)
    with (folder / "networks.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["name"] in profiles]
    evidence: dict[str, list[Evidence]] = defaultdict(list)
    for row in rows:
        found = plan_of(row)
        measured = profiled(profiles[row["name"]], training=row["phase"] == "train")
        for name, table in _tables(found).items():
            calls = measured.calls[name]
            if abs(calls / len(table.sequence) - 1) <= _CALLS_APART:
                evidence[name].append(
                    Evidence(
                        network=row["network"],
                        clock_mhz=float(row["sm_clock_mhz"]),
                        measured_s=measured.seconds[name],
                        table=table,
                    )
                )
    return evidence


def plan_of(row: Mapping[str, str], mode: str = "eager") -> Plan:
    """Return the plan of a row of networks.csv."""
    model = f"{_ROOT / row['model']}" if ".py:" in row["model"] else row["model"]
    traced = trace_model(
        model,
        batch=int(row["batch"]),
        precision=row["precision"],
        training=row["phase"] == "train",
        **json.loads(row["knobs"]),
    )
    return next(one for one in plan(traced, cast("Mode", mode)) if one.phase.phase == row["phase"])


def _tables(found: Plan) -> dict[str, WorkTable]:
    """Return the work of each class apart; whether it is training is seen by the whole program."""
    program = found.phase.program
    training = any(one.stage == "backward" for one in program.operators)
    parts: dict[str, list[Operator]] = defaultdict(list)
    for operator in program.operators:
        name = kernel_class(operator, training=training)
        parts[_TOGETHER.get(name, name)].append(operator)
    return {name: _tabulated(program, part, training) for name, part in parts.items()}


def _tabulated(program: Any, part: Sequence[Operator], training: bool) -> WorkTable:
    """Tabulate a part of a program; classes stay those within the whole."""
    groups = tuple((index,) for index in range(len(part)))
    table = tabulate(replace(program, operators=tuple(part), live_b=()), groups)
    classes = tuple(kernel_class(one, training=training) for one in table.operators)
    return replace(table, classes=classes)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Seconds and calls of each class in a step."""

    seconds: Counter[str]
    calls: Counter[str]


def profiled(entries: Iterable[Mapping[str, Any]], *, training: bool) -> Profile:
    """Return what each class takes in a profile.

    In half precision, normalising over batches copies its statistics first: that is part of it.
    """
    entries = list(entries)
    has_norms = any(one["operator"] == "native_batch_norm" for one in entries) and not training
    found = Profile(seconds=Counter(), calls=Counter())
    for one in entries:
        if one["operator"].startswith(_NO_KERNELS) or " " in one["operator"]:
            continue
        if has_norms and one["operator"] == "copy_" and len(one["shapes"][0]) == 1:
            found.seconds["batch_norm"] += one["device_s"]
            continue
        name = _profiled_class(one, training=training)
        name = _TOGETHER.get(name, name)
        found.seconds[name] += one["device_s"]
        found.calls[name] += one["calls"]
    return found


def _profiled_class(entry: Mapping[str, Any], *, training: bool) -> str:
    name, shapes = entry["operator"], entry["shapes"]
    kind = kind_of(name)
    shape = _convolution(name, shapes) if kind == "conv" else None
    operator = Operator(
        name=name, kind=kind, shape=shape, flop=0.0, read_b=0.0, weight_b=0.0, written_b=0.0
    )
    return kernel_class(operator, training=training)


def _convolution(name: str, shapes: Sequence[Sequence[int]]) -> MatrixShape | None:
    image, weight = shapes[1:3] if "backward" in name else shapes[:2]
    if len(weight) < 4 or len(image) != len(weight):  # images and their windows
        return None
    groups = image[1] // weight[1]
    window = prod(weight[2:])
    return MatrixShape(
        batch=groups, m=1000, n=weight[0] // groups, k=weight[1] * window, window=window
    )


def device_s(one: Evidence, processor: Processor) -> float:
    """Return how long all kernels take that ``one`` is about, at its clock."""
    costs = group_costs(one.table, processor)
    rows = np.arange(one.table.num_rows)
    clock_mhz = np.full(len(rows), min(one.clock_mhz, processor.default_clock_mhz))
    memory_s = memory_side_s(costs, processor, clock_mhz, rows)
    device_s = kernel_s(costs.core_s_mhz / clock_mhz, memory_s) + costs.fixed_s
    return float(device_s[one.table.sequence].sum())


def fitted(name: str, evidence: Sequence[Evidence], processor: Processor) -> dict[str, float]:
    """Return the scalars of one class."""
    names = _scalars(name, evidence)
    start = np.log([_start(processor, one) for one in names])
    measured = np.log([one.measured_s for one in evidence])
    weight = np.exp(measured) ** 0.25

    def residuals(logs: Array) -> Array:
        there = with_values(processor, dict(zip(names, np.exp(logs), strict=True)))
        predicted = np.log([device_s(one, there) for one in evidence])
        return np.concatenate([weight * (predicted - measured), _PULL * (logs - start)])

    bounds = ([-np.inf] * len(names), [0.0 if "efficiency" in one else np.inf for one in names])
    found = least_squares(residuals, start, bounds=bounds, loss="soft_l1", f_scale=_TOLERANCE)
    return dict(zip(names, map(float, np.exp(found.x)), strict=True))


def _scalars(name: str, evidence: Sequence[Evidence]) -> list[str]:
    seen = {
        (found, operator.dtype == "float32")
        for one in evidence
        for found, operator in zip(one.table.classes, one.table.operators, strict=True)
    }
    kept = sorted(one for one in seen if one[0] not in _OF_PIPES)
    names = [f"{found}_float32" if wide else found for found, wide in kept]
    return [f"timing.least_s.{name}", *(f"timing.kind_efficiency.{one}" for one in names)]


def _start(processor: Processor, name: str) -> float:
    return 2e-6 if "least_s" in name else 0.5


def _print(
    console: Console,
    name_and_source: tuple[str, str],
    found: Sequence[Evidence],
    processor: Processor,
    values: Mapping[str, float],
) -> None:
    name, source = name_and_source
    before = _errors(found, processor)
    after = _errors(found, with_values(processor, values))
    networks = len({one.network for one in found})
    console.print(
        f"# {name}: {len(found)} cases of {networks} networks, "
        f"{np.mean(np.abs(before)):.2f} before and {np.mean(np.abs(after)):.2f} after"
    )
    for key, value in values.items():
        profiles = f"{len(found)} profiles of {networks} networks on {source}"
        console.print(
            f'"{key}" = {{ value = {value:.4g}, status = "F", source = "{profiles}" }}',
            highlight=False,
            soft_wrap=True,
        )


def _errors(found: Sequence[Evidence], processor: Processor) -> Array:
    ratios: list[float] = [device_s(one, processor) / one.measured_s for one in found]
    return np.log(ratios)


if __name__ == "__main__":
    sys.exit(main())
