"""Fit how fast kernels run within networks to profiles of networks that do not test the estimator.

Usage: python benchmarks/fit_networks.py FOLDER... [--device h100_sxm] [--only CLASS...]

FOLDER holds what ``measure_networks.py FOLDER --fitting`` wrote. Prints lines for the data file of
the GPU: one efficiency for each class of kernels and number format, and its least time.
"""

import argparse
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

from joulelab.csv_table import read_csv_table
from joulelab.estimator.estimate import Mode
from joulelab.estimator.models import trace_model
from joulelab.estimator.pricing.kernel_class import kernel_class
from joulelab.estimator.pricing.roofline import group_costs, kernel_s, memory_side_s
from joulelab.estimator.pricing.run import Plan, plan
from joulelab.estimator.pricing.table import WorkTable
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import PROCESSORS
from joulelab.hardware.scalars import with_values
from joulelab.tracing.calls import kind_of
from joulelab.tracing.program import Layout, MatrixShape, Operator

_ROOT = Path(__file__).parents[1]
_TOGETHER = {"rearrangement": "copying"}
"""Classes that a profile does not tell apart."""
_OF_PIPES = ("product",)
"""Classes that reach what their pipe does in a loop of large products, less a prologue."""
_NO_KERNELS = ("Activity Buffer", "Runtime", "cuda", "Lazy", "Command", "ProfilerStep")
_MASKED = ("bert-large", "electra-small")
"""Networks of transformers whose attention falls apart where PyTorch 2.11 compiles them: it says
that it exports them, and so they make a mask. Later versions do not."""
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
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--device", default="h100_sxm", help="as joulelab estimate takes it")
    parser.add_argument("--only", nargs="+", default=[], help="classes, by name")
    settings = parser.parse_args()
    evidence: dict[str, list[Evidence]] = defaultdict(list)
    for folder in settings.folders:
        for name, found in read_evidence(folder).items():
            evidence[name] += found
    where = ", ".join(folder.name for folder in settings.folders)
    processor = PROCESSORS[settings.device]
    console = Console(width=130)
    for name, found in sorted(evidence.items()):
        is_asked = not settings.only or name in settings.only
        if is_asked and len(found) >= _LEAST_CASES and name != kind_of(name):
            values = fitted(name, found, processor)
            source = f"one {processor.product_name} (experiments/results: {where})"
            _print(console, (name, source), found, processor, values)
    return 0


def read_evidence(folder: Path) -> dict[str, list[Evidence]]:
    """Return the evidence of every class."""
    with gzip.open(folder / "kernels.json.gz", "rt") as file:
        profiles = json.load(file)
    rows = [row for row in read_csv_table(folder / "networks.csv") if row["name"] in profiles]
    evidence: dict[str, list[Evidence]] = defaultdict(list)
    for row in rows:
        is_compiled = row["mode"].startswith("compiled")
        if is_compiled and row["network"] in _MASKED:
            continue
        found = plan_of(row, "compiled" if is_compiled else "eager")
        measured = profiled(profiles[row["name"]], row)
        for name, table in _tables(found).items():
            apart = abs(measured.calls[name] / len(table.sequence) - 1)
            if apart <= _CALLS_APART or (name.startswith("fused_") and measured.calls[name]):
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
        compiled=mode == "compiled",
        **json.loads(row["knobs"]),
    )
    return next(
        one for one in plan(traced, cast("Mode", mode), "gpu") if one.phase.phase == row["phase"]
    )


def _tables(found: Plan) -> dict[str, WorkTable]:
    """Return the work of each class apart, which is smaller than all of it."""
    table = found.table
    parts: dict[str, list[int]] = defaultdict(list)
    for place, group in enumerate(table.sequence):
        name = table.classes[table.main[group]]
        parts[_TOGETHER.get(name, name)].append(place)
    return {name: _table_of(found, part) for name, part in parts.items()}


def _table_of(found: Plan, places: Sequence[int]) -> WorkTable:
    """Return the table of some groups of a program; their bytes stay those within the whole."""
    table = found.table
    rows, sequence = np.unique(table.sequence[places], return_inverse=True)
    kept = np.isin(table.member_group, rows)
    operators, members = np.unique(table.member_row[kept], return_inverse=True)
    return replace(
        table,
        operators=tuple(table.operators[row] for row in operators),
        classes=tuple(table.classes[row] for row in operators),
        flop=table.flop[operators],
        element_b=table.element_b[operators],
        shapes=table.shapes.at(operators),
        has_shape=table.has_shape[operators],
        member_group=np.searchsorted(rows, table.member_group[kept]),
        member_row=members,
        read_b=table.read_b[rows],
        weight_b=table.weight_b[rows],
        written_b=table.written_b[rows],
        outside_b=table.outside_b[rows],
        reduced_b=table.reduced_b[rows],
        main=np.searchsorted(operators, table.main[rows]),
        sequence=sequence,
    )


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Seconds and calls of each class in a step."""

    seconds: Counter[str]
    calls: Counter[str]


def profiled(entries: Iterable[Mapping[str, Any]], row: Mapping[str, str]) -> Profile:
    """Return what each class takes in a profile of what ``row`` ran.

    In half precision, normalising over batches copies its statistics first: that is part of it.
    """
    entries, training = list(entries), row["phase"] == "train"
    has_norms = any(one["operator"] == "native_batch_norm" for one in entries) and not training
    found = Profile(seconds=Counter(), calls=Counter())
    for one in entries:
        if one["operator"].startswith(_NO_KERNELS) or " " in one["operator"]:
            continue
        if has_norms and one["operator"] == "copy_" and len(one["shapes"][0]) == 1:
            found.seconds["batch_norm"] += one["device_s"]
            continue
        name = _profiled_class(one, row)
        name = _TOGETHER.get(name, name)
        found.seconds[name] += one["device_s"]
        found.calls[name] += one["calls"]
    return found


_TRITON = {"poi": "fused_pointwise", "per": "fused_reduction", "red": "fused_reduction"}
_MASK = 3
"""Position of the mask among the arguments of fused attention."""


def _profiled_class(entry: Mapping[str, Any], row: Mapping[str, str]) -> str:
    name, shapes = entry["operator"], entry["shapes"]
    if name.startswith("triton_"):
        return _TRITON[name.split("_")[1]]
    if name == "gather" and len(shapes) > 1 and not shapes[1]:
        name = "embedding"  # whose rows PyTorch looks up by that kernel
    kind = kind_of(name)
    operator = Operator(
        name=name,
        kind=kind,
        shape=_shape(kind, name, shapes),
        layout=_layout(kind, entry, row),
        dtype={"fp32": "float32", "fp16": "float16"}.get(row["precision"], "bfloat16"),
        flop=0.0,
        read_b=0.0,
        weight_b=0.0,
        written_b=0.0,
    )
    return kernel_class(operator, training=row["phase"] == "train")


def _layout(kind: str, entry: Mapping[str, Any], row: Mapping[str, str]) -> Layout:
    """Return how operands lay, by the kernels that ran; where they are not known, by shapes."""
    shapes, kernels = entry["shapes"], " ".join(entry.get("kernels", ()))
    is_last = json.loads(row["knobs"]).get("channels_last", False)
    if kind == "conv":
        is_last |= row["mode"].startswith("compiled") or "nhwc_specialized" in kernels
    if kind in ("conv", "norm", "reduction"):
        return "channels_last" if is_last and len(shapes[0]) == 4 else "plain"
    if kind == "attention":
        return "masked" if len(shapes) > _MASK and shapes[_MASK] else "plain"
    if entry["operator"] == "cat":
        if "BatchedCopy<" in kernels:
            return "strided"
        return "channels_last" if is_last else "plain"
    if kernels:
        return "plain" if "vectorized" in kernels or "unrolled" in kernels else "strided"
    return "plain" if len({tuple(each) for each in shapes if each}) <= 1 else "strided"


def _shape(kind: str, name: str, shapes: Sequence[Sequence[int]]) -> MatrixShape | None:
    if kind == "conv":
        return _convolution(name, shapes)
    if "bmm" not in name:
        return None
    (batch, m, k), (_, _, n) = shapes[1:3] if name == "baddbmm" else shapes[:2]
    return MatrixShape(batch=batch, m=m, n=n, k=k)


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
    clock_mhz = np.full(one.table.num_rows, min(one.clock_mhz, processor.default_clock_mhz))
    memory_s = memory_side_s(costs, processor, clock_mhz)
    device_s = kernel_s(costs.core_s_mhz / clock_mhz, memory_s)
    device_s += costs.turns_s_mhz / clock_mhz + costs.fixed_s
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
        (one.table.classes[row], one.table.operators[row].dtype == "float32")
        for one in evidence
        for row in one.table.main
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
