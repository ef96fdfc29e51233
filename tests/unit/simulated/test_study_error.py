"""The benchmark that compares the simulated board with studies of knobs."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_results import header, measurement

from joulelab import EnergyWindow
from joulelab.analysis.knob_grid import Axis, KnobStudy, knob_grid
from joulelab.core.device import DeviceIdentity
from joulelab.core.record import Record
from joulelab.devices.simulated.engine import steady_load
from joulelab.errors import ConfigError
from joulelab.hardware import GPUS
from joulelab.study.conclude import conclude_knobs
from joulelab.tracking.store import ResultStore
from joulelab.workloads import WORKLOADS
from joulelab.workloads.disk_cache import cached_cost

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
BOARD = DeviceIdentity(
    uuid="GPU-1", name="NVIDIA H200", backend="nvml", driver_version="580.159.04"
)


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    sys.modules.pop("study_error", None)
    import study_error

    return study_error


def study(folder, *, factor, board=BOARD):
    """A study of gemm whose boards take ``factor`` times the simulated energy."""
    axis = Axis(knob="batch", values=(1, 4), title="batch")
    grid = knob_grid("gemm", {"n": 2048, "precision": "bf16"}, [axis])
    store = ResultStore(folder)
    store.write_study(header())
    for repeat, configuration in enumerate(grid.configurations * 2):
        cost = cached_cost(WORKLOADS["gemm"].from_knobs(dict(configuration.knobs)))
        load = steady_load(GPUS["h200_sxm"], cost.phase("gemm"), data=cost.data)
        window = EnergyWindow(
            start_s=0.0, duration_s=load.time_per_unit_s, energy_j=factor * load.energy_per_unit_j,
            energy_u_j=0.0, source="counter", work=1.0,
        )  # fmt: skip
        made = measurement(
            configuration=configuration, phase="gemm", unit="TFLOP", device=board, repeat=repeat,
            windows=(window,) * 3, measurement_id=f"m{repeat}", trial=f"t{repeat}",
        )  # fmt: skip
        store.append(Record(measurement=made, trace=None))
    conclude_knobs(store, KnobStudy(grid=grid, about="batches", panels=("energy",)))
    return folder


def test_errors_are_those_of_every_combination(benchmark, tmp_path):
    config = benchmark.StudyError(studies=(study(tmp_path / "s", factor=1.25),))

    time, energy = benchmark.figures(config)

    assert time.measured == pytest.approx(0.0, abs=1e-6)
    assert energy.measured == pytest.approx(20.0)
    assert energy.how.startswith("2 cells;")


def test_a_phase_that_told_a_constant_is_left_out(benchmark, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "SEEN", (("gemm", "gemm"),))

    assert benchmark.compare(study(tmp_path, factor=1.0)) == []


def test_a_gpu_that_nobody_knows_is_an_error(benchmark, tmp_path):
    board = replace(BOARD, name="NVIDIA X1")

    with pytest.raises(ConfigError, match="'NVIDIA X1', not in the catalogue"):
        benchmark.compare(study(tmp_path, factor=1.0, board=board))
