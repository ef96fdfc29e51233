"""Fit what networks draw to networks that test nothing.

Usage: python benchmarks/fit_boards.py FOLDER... [--device h100_sxm...]

FOLDER is that of fit_networks.py, with the host it was measured on as host.toml and, where single
kernels were measured on the same board (product_power.py), products.csv: these are fitted too, so
that networks do not explain by products what other kernels draw. Prints the scalars of power of
each GPU, and the factors of ``hardware/processors.py``, from all hosts together. Times come first:
fit_networks.py.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from fit_networks import plan_of
from numpy.typing import NDArray
from scipy.optimize import least_squares

from joulelab.core.cost import Pipe
from joulelab.core.point import OperatingPoint
from joulelab.csv_table import read_csv_table
from joulelab.estimator.pricing.power import settle
from joulelab.estimator.pricing.roofline import GroupCosts, group_costs
from joulelab.estimator.pricing.run import Plan, conditions, run_at
from joulelab.estimator.pricing.table import WorkTable, tabulate
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import PROCESSORS, Host, find_host, on_host
from joulelab.hardware.scalars import value_of, with_values
from joulelab.tracing.precision import element_b
from joulelab.tracing.program import MatrixShape, Operator, Program

_POWERS = (
    *("power.constant_w", "power.clock_w_per_ghz", "power.busy_w_per_ghz"),
    *("power.flop_j.tensor_bf16", "power.flop_j.tensor_tf32", "power.flop_j.fp32"),
    *("levels.L2.byte_j", "levels.DRAM.byte_j"),
)
_PULL = 0.3
"""How far a change by a factor of e outweighs a case whose power is off by as much."""
_TOLERANCE = 0.1
_TIME_TOLERANCE = 0.25
"""Error of time, as a share, from which a case says less of power."""
_LEFT_OUT = ("small-lstm", "t5-small-encoder")
"""Layers of the one are one call each of cuDNN, which launches a kernel for each step in time; the
other runs its attention by parts, since its mask is strided in the transformers that ran it."""
_LOADED_W, _EACH_OTHER = 300.0, 4
"""Power from which each case is taken, and which of those below, which say less of kernels."""
_FILLINGS = ("normal", "product", "stream")
_STREAMED = 1 << 28
_DTYPES: dict[Pipe, str] = {"tensor_bf16": "bfloat16", "tensor_fp16": "float16"}
_SINGLE = 1.5
"""By how much a kernel that runs alone outweighs a network."""
Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A case, as measured and as it is run; its costs but for energies do not change with power."""

    row: dict[str, str]
    plan: Plan
    mode: Any
    costs: GroupCosts
    host: Host

    def predicted(self, processor: Processor) -> tuple[float, float]:
        """Return time and mean power on ``processor``."""
        where = conditions(processor, self.mode, (OperatingPoint(),), 1)
        found = run_at(self.plan, _with_energies(self.costs, processor), where)
        time_s = float(found.latency_s[0])
        return time_s, float(found.energy_j[0]) / time_s

    @property
    def time_s(self) -> float:
        """Its time, as measured."""
        return float(self.row["time_s"])

    @property
    def power_w(self) -> float:
        """Its mean power, as measured."""
        return float(self.row["power_w"])


@dataclass(frozen=True, kw_only=True)
class Single:
    """A kernel that ran alone, over and over, at a clock that was read."""

    costs: GroupCosts
    clock_mhz: float
    power_w: float

    def predicted_w(self, processor: Processor) -> float:
        """Return its power at that clock."""
        clock_mhz, cap_w = np.array([self.clock_mhz]), np.array([np.inf])
        settled = settle(_with_energies(self.costs, processor), processor, clock_mhz, cap_w)
        return float(settled.power_w[0, 0])


def _with_energies(costs: GroupCosts, processor: Processor) -> GroupCosts:
    power, cache, memory = processor.power, processor.last_cache, processor.memory
    flop_j = sum(
        (costs.flop[pipe] * power.flop_j[pipe] for pipe in costs.flop),
        start=np.zeros(len(costs.fill)),
    )
    return replace(
        costs,
        flop_j=flop_j,
        cache_j=costs.moved_b[cache.name] * cache.byte_j,
        memory_j=costs.moved_b[memory.name] * memory.byte_j,
    )


def main() -> int:
    """Print what fits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--device", nargs="+", default=["h100_sxm"], help="one for each folder")
    settings = parser.parse_args()
    for folder, device in zip(settings.folders, settings.device, strict=True):
        host = find_host(str(folder / "host.toml"))
        processor = on_host(PROCESSORS[device], host)
        cases = _read(folder, processor, host)
        print(f"# {device}")
        for name, value in fitted_powers(cases, _singles(folder, processor), processor).items():
            print(f"{name} = {value:.4g}")
    return 0


def _read(folder: Path, processor: Processor, host: Host) -> list[Case]:
    cases = []
    for row in read_csv_table(folder / "networks.csv"):
        if row["error"] or not row["energy_j"]:
            continue
        if row["network"] in _LEFT_OUT or row["mode"].startswith("compiled"):
            continue
        found = plan_of(row, row["mode"])
        costs = group_costs(found.table, processor)
        cases.append(Case(row=row, plan=found, mode=row["mode"], costs=costs, host=host))
    return cases


def _singles(folder: Path, processor: Processor) -> list[Single]:
    """Return the products of random numbers and the stream of ``products.csv``, if there is one."""
    path = folder / "products.csv"
    if not path.is_file():
        return []
    rows = [row for row in read_csv_table(path) if row["data"] in _FILLINGS]
    return [
        Single(
            costs=group_costs(_single_table(row), processor),
            clock_mhz=float(row["sm_clock_mhz"]),
            power_w=float(row["power_w"]),
        )
        for row in rows
    ]


def _single_table(row: dict[str, str]) -> WorkTable:
    if row["data"] != "stream":
        m, n, k = (int(row[name]) for name in "mnk")
        return product_table(m, n, k, "tensor_bf16")
    fields: dict[str, Any] = {"name": "add", "kind": "elementwise", "flop": float(_STREAMED)}
    fields |= {"read_b": 2.0 * _STREAMED, "weight_b": 0.0, "written_b": 2.0 * _STREAMED}
    return _table_of("bfloat16", **fields)


def product_table(m: int, n: int, k: int, pipe: Pipe) -> WorkTable:
    """Return one product of an (m, k) and a (k, n) matrix on the units ``pipe``."""
    dtype = _DTYPES.get(pipe, "float32")
    size_b = element_b(dtype)
    return _table_of(
        dtype,
        name="gemm",  # of no class: it runs alone
        kind="gemm",
        pipe=pipe,
        flop=2.0 * m * n * k,
        shape=MatrixShape(batch=1, m=m, n=n, k=k),
        read_b=size_b * m * k,
        weight_b=size_b * n * k,
        written_b=size_b * m * n,
    )


def _table_of(dtype: str, **fields: Any) -> WorkTable:
    program = Program(
        operators=(Operator(dtype=dtype, **fields),),
        live_b=(0.0,),
        parameter_b=fields["weight_b"],
        input_b=0.0,
    )
    return tabulate(program, ((0,),))


def fitted_powers(
    cases: Sequence[Case], singles: Sequence[Single], processor: Processor
) -> dict[str, float]:
    """Return the scalars of power that give the mean powers, where times are about right."""
    before = np.array([value_of(processor, name) for name in _POWERS])
    loaded = [case for case in cases if case.power_w >= _LOADED_W]
    chosen = [*loaded, *[case for case in cases if case.power_w < _LOADED_W][::_EACH_OTHER]]
    measured = np.array([case.power_w for case in chosen])

    def residuals(changes: Array) -> Array:
        there = with_values(processor, dict(zip(_POWERS, before * np.exp(changes), strict=True)))
        found = np.array([case.predicted(there) for case in chosen])
        late = found[:, 0] / np.array([case.time_s for case in chosen]) - 1.0
        weight = np.exp(-0.5 * (late / _TIME_TOLERANCE) ** 2)
        alone = [np.log(one.predicted_w(there) / one.power_w) for one in singles]
        missed = weight * np.log(found[:, 1] / measured)
        return np.concatenate([missed, _SINGLE * np.array(alone), _PULL * changes])

    found = least_squares(
        residuals, np.zeros(len(_POWERS)), loss="soft_l1", f_scale=_TOLERANCE, max_nfev=8
    )
    return dict(zip(_POWERS, map(float, before * np.exp(found.x)), strict=True))


if __name__ == "__main__":
    sys.exit(main())
