"""A few coefficients of a GPU, each times a factor."""

import sys
from pathlib import Path

import pytest

from joulelab.errors import UnknownNameError
from joulelab.hardware import GPUS

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from scaled_boards import COEFFICIENTS, scaled

H200 = GPUS["h200_sxm"]


def test_a_coefficient_scales_its_figures_and_nothing_else():
    slow = scaled(H200, {"host_launch": 2.0})

    assert slow.timing.launch_s("gemm") == 2 * H200.timing.launch_s("gemm")
    assert slow.timing.kernel_overhead_s == H200.timing.kernel_overhead_s
    assert slow.power == H200.power


def test_calibrated_figures_are_scaled_as_those_that_they_replace():
    changed = scaled(H200, {"host_launch": 2.0, "pipe_efficiency": 0.5})

    for name, factor in (
        ("calibrated.timing.eager_launch_s.default", 2.0),
        ("calibrated.timing.pipe_efficiency.tensor_bf16", 0.5),
        ("calibrated.timing.memory_efficiency", 1.0),
        ("calibrated.timing.kernel_overhead_s", 1.0),
    ):
        assert changed.figures[name].value == pytest.approx(factor * H200.figures[name].value)


def test_every_entry_of_a_mapping_is_scaled():
    changed = scaled(H200, {"core_power": 0.5}).power.pipe_w_per_ghz

    assert changed == {pipe: 0.5 * w for pipe, w in H200.power.pipe_w_per_ghz.items()}


def test_no_efficiency_exceeds_one():
    changed = scaled(H200, {"pipe_efficiency": 4.0})

    assert set(changed.timing.pipe_efficiency.values()) == {1.0}
    assert changed.figures["calibrated.timing.pipe_efficiency.fp32"].value == 1.0


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_every_coefficient_changes_something_and_a_factor_of_one_nothing(coefficient):
    assert scaled(H200, {coefficient: 0.5}) != H200
    assert scaled(H200, {coefficient: 1.0}) == H200


def test_an_unknown_coefficient_is_refused_with_the_closest():
    with pytest.raises(UnknownNameError, match="host_launch"):
        scaled(H200, {"host_lunch": 1.0})
