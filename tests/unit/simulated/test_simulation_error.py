"""The benchmark that compares the simulated board with a table: its errors and its fit."""

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from scaled_boards import scaled

from joulelab.core.cost import KernelCost, PhaseCost
from joulelab.errors import ConfigError
from joulelab.hardware import GPUS

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
H200 = GPUS["h200_sxm"]
FACTORS = {
    "host_launch": 1.7,
    "host_python": 1.4,
    "elementwise": 1.3,
    "pipe_efficiency": 0.85,
    "core_power": 0.9,
}


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    sys.modules.pop("simulation_error", None)
    import simulation_error

    return simulation_error


def cells(benchmark, spec):
    """Return loads that each of the coefficients limits, as they cost on ``spec``."""
    kernels = {
        "gemm": KernelCost(name="gemm", pipe="tensor_bf16", flop=1.1e12, dram_b=4e8),
        "simt": KernelCost(name="gemm", pipe="fp32", flop=1e11, dram_b=1e8),
        "copy": KernelCost(name="copy", pipe="fp32", flop=0, dram_b=8e9),
        "small": KernelCost(name="elementwise", pipe="fp32", flop=1e6, dram_b=4e6, count=1000),
        "short": KernelCost(name="gemm", pipe="fp32", flop=5e8, dram_b=4e7, count=1000),
    }
    made = [
        benchmark.Cell(
            name=name, workload=name, precision="bf16", time_s=1.0, energy_j=1.0, data="random",
            phase=PhaseCost(phase=name, work=1.0, kernels=(kernel,)),
        )
        for name, kernel in kernels.items()
    ]  # fmt: skip
    return [
        replace(
            each.cell,
            time_s=each.simulated.time_per_unit_s,
            energy_j=each.simulated.energy_per_unit_j,
        )
        for each in benchmark.simulate(spec, made)
    ]


def test_a_board_has_no_error_against_itself(benchmark):
    compared = benchmark.simulate(H200, cells(benchmark, H200))

    assert all(each.errors == pytest.approx((0.0, 0.0)) for each in compared)


def test_a_table_of_another_host_and_board_is_fitted(benchmark):
    other = cells(benchmark, scaled(H200, FACTORS))
    before = [each.errors for each in benchmark.simulate(H200, other)]

    factors = benchmark.fitted_factors(H200, other)

    after = [each.errors for each in benchmark.simulate(scaled(H200, factors), other)]
    assert max(abs(error) for pair in before for error in pair) > 0.2
    assert max(abs(error) for pair in after for error in pair) < 0.02
    assert factors["host_launch"] == pytest.approx(FACTORS["host_launch"], rel=0.05)


def test_only_measured_rows_of_a_table_become_cells(benchmark, tmp_path):
    knobs = json.dumps({"duration_s": 2.0})
    shared = {"workload": "idle", "variant": "long", "batch": "", "device": "NVIDIA H200"}
    figures = {"time_per_unit_s": "1", "energy_per_unit_j": "120", "knobs": knobs}
    rows = [
        shared | figures | {"precision": "", "phase": "idle", "outcome": "measured"},
        shared | {"precision": "int8", "phase": "", "outcome": "refused"},
    ]
    with (tmp_path / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)

    spec, found, left_out = benchmark.read_cells(tmp_path / "table.csv")

    assert spec is H200
    assert [(cell.name, cell.time_s, cell.energy_j) for cell in found] == [
        ("idle long", 1.0, 120.0)
    ]
    assert found[0].phase.wait_s == 2.0
    assert left_out == {}


def test_a_part_of_a_table_is_read_and_a_workload_that_it_lacks_refused(benchmark):
    _, found, _ = benchmark.read_cells(benchmark.TABLE, ("stream",))

    assert {cell.workload for cell in found} == {"stream"}
    with pytest.raises(ConfigError, match="vitt"):
        benchmark.read_cells(benchmark.TABLE, ("vitt",))
