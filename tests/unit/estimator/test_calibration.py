"""Fits to micro-benchmarks that were made by a processor whose scalars are known."""

from dataclasses import replace

import pytest

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.estimator.calibration.anchors import Anchor, Pricing, read_anchors, rejections
from joulelab.estimator.calibration.fit import calibrate
from joulelab.hardware.processor import Figure
from joulelab.hardware.processors import PROCESSORS
from joulelab.hardware.scalars import bounds_of, calibrated, value_of, with_values
from joulelab.tracing.program import MatrixShape

H200 = PROCESSORS["h200_sxm"]
TRUE = {
    "power.constant_w": 80.0,
    "timing.memory_efficiency": 0.8,
    "timing.stream_overhead_s": 2e-6,
    "timing.kernel_overhead_s": 3e-6,
    "timing.pipe_efficiency.tensor_bf16": 0.7,
    "power.flop_j.fp32": 4.2e-12,
    "levels.DRAM.byte_j": 5e-11,
    "levels.L2.bandwidth_b_per_s": 7e12,
    "timing.kind_efficiency.conv": 0.6,
    "timing.layout_efficiency": 0.5,
    "timing.eager_launch_s.conv": 2e-5,
}


def product(size, dtype):
    element_b = {"bfloat16": 2, "float32": 4}[dtype]
    return Anchor(
        name=f"gemm_{size}_{dtype}",
        kind="gemm",
        dtype=dtype,
        mode="graph",
        shape=MatrixShape(batch=1, m=size, n=size, k=size),
        elements=size**2,
        flop=2.0 * size**3,
        moved_b=3 * size**2 * element_b,
    )


def copy(size_b):
    return Anchor(
        name=f"copy_{size_b}",
        kind="copy",
        dtype="float32",
        mode="graph",
        elements=size_b / 4,
        moved_b=2.0 * size_b,
    )


def convolution(batch, **changes):
    m, n, k = batch * 56 * 56, 64, 576
    point = Anchor(
        name=f"conv_{batch}",
        kind="conv",
        dtype="float16",
        mode="graph",
        shape=MatrixShape(batch=1, m=m, n=n, k=k, window=9, pixels=56 * 56),
        elements=m * n,
        flop=2.0 * m * n * k,
        moved_b=2.0 * (2 * m * n + n * k),
    )
    return replace(point, **changes)


UNMEASURED = (
    Anchor(name="idle", kind="idle", dtype="float32", mode="idle", time_s=1.0),
    *(
        product(size, dtype)
        for size in (1024, 2048, 4096, 8192)
        for dtype in ("bfloat16", "float32")
    ),
    *(copy(2**exponent) for exponent in (16, 20, 22, 28, 30, 32)),
    *(convolution(batch) for batch in (64, 256)),
    convolution(64, name="conv_channels_last", is_channels_last=True),
    Anchor(name="launch_conv", kind="conv", dtype="float32", mode="eager", time_s=1.0),
)


def measured_on(processor, anchors=UNMEASURED):
    """The same points as they would be measured on ``processor``."""
    prices = Pricing(anchors).on(processor)
    columns = zip(anchors, prices.time_s, prices.energy_j, prices.clock_mhz, strict=True)
    return [
        replace(anchor, time_s=time_s, power_w=energy_j / time_s, clock_mhz=clock_mhz)
        for anchor, time_s, energy_j, clock_mhz in columns
    ]


def test_scalars_that_made_the_points_are_found_again():
    points = measured_on(with_values(H200, TRUE))

    found = calibrate(H200, points)

    fitted = {figure.name: figure.value for figure in found.figures}
    assert {name: fitted[name] for name in TRUE} == pytest.approx(TRUE, rel=0.01)


def test_a_calibrated_processor_predicts_the_points_it_was_fitted_to():
    found = calibrate(H200, measured_on(with_values(H200, TRUE)))

    assert found.time_error < 1e-3
    assert found.energy_error < 1e-3


def test_what_no_point_identifies_is_left_as_it_was():
    found = calibrate(H200, measured_on(with_values(H200, TRUE)))

    assert found.processor.timing.pipe_efficiency["tensor_tf32"] == pytest.approx(
        H200.timing.pipe_efficiency["tensor_tf32"]
    )
    assert "timing.pipe_efficiency.tensor_tf32" not in {one.name for one in found.figures}


def test_a_point_above_the_peak_is_refused_and_bends_nothing():
    points = measured_on(with_values(H200, TRUE))
    too_fast = replace(points[1], name="too fast", time_s=points[1].time_s / 10)

    found = calibrate(H200, [*points, too_fast])

    assert "times the peak of tensor_bf16" in found.rejected["too fast"]
    assert found.processor == calibrate(H200, points).processor


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"power_w": 900.0}, "draws 900 W under a limit of 700 W"),
        ({"time_s": 0.0}, "took 0 s"),
        ({"problem": "out of memory"}, "not measured: out of memory"),
    ],
)
def test_a_point_that_cannot_be_is_refused_with_its_reason(change, reason):
    point = replace(measured_on(H200)[1], **change)

    assert rejections(H200, [point]) == {point.name: reason}


def test_a_copy_faster_than_the_memory_is_refused():
    point = replace(copy(2**32), time_s=2 * 2**32 / 6e12, power_w=500.0)

    assert rejections(H200, [point]) == {point.name: "moves 1.25 times what the memory can"}


def test_points_that_identify_nothing_cannot_calibrate():
    with pytest.raises(ConfigError, match="1 were refused and none identifies a scalar"):
        calibrate(H200, [replace(product(2048, "bfloat16"), problem="out of memory")])


def test_changed_scalars_leave_all_others_alone():
    changed = with_values(H200, {"levels.DRAM.byte_j": 1e-10})

    assert value_of(changed, "levels.DRAM.byte_j") == 1e-10
    assert with_values(changed, {"levels.DRAM.byte_j": H200.memory.byte_j}) == H200


@pytest.mark.parametrize("name", ["power.nothing", "power", "levels.L9.byte_j"])
def test_a_scalar_that_does_not_exist_is_named(name):
    with pytest.raises((ConfigError, UnknownNameError), match=r"L9|'power"):
        value_of(H200, name)


def test_efficiencies_cannot_exceed_one():
    assert bounds_of(H200, "timing.memory_efficiency")[1] == 1.0


def test_fitted_figures_hold_once_a_data_file_has_them():
    fitted = calibrate(H200, measured_on(with_values(H200, TRUE))).figures

    figures = {
        f"calibrated.{one.name}": Figure(value=one.value, status="F", source="a test")
        for one in fitted
        if not one.at_bound
    }
    read = calibrated(replace(H200, figures=figures))
    assert {name: value_of(read, name) for name in TRUE} == pytest.approx(TRUE, rel=0.01)


def test_a_table_of_micro_benchmarks_is_read(tmp_path):
    path = tmp_path / "anchors.csv"
    path.write_text(
        "name,kind,dtype,m,n,k,batch,elements,moved_b,flop,mode,cold,time_s,power_w,sm_clock_mhz\n"
        "linear,gemm,bfloat16,8,4096,4096,1,32768,33685504,268435456,graph,True,1e-5,400,1980\n"
    )

    (anchor,) = read_anchors(path)

    assert anchor.operator.weight_b == 2 * 4096 * 4096
    assert anchor.operator.moved_b == anchor.moved_b
    assert anchor.is_cold
    assert anchor.energy_j == pytest.approx(4e-3)


def test_a_table_of_something_else_is_refused_with_what_it_lacks(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("name,kind\nx,gemm\n")

    with pytest.raises(ConfigError, match="lacks the columns dtype, mode, time_s, flop, moved_b"):
        read_anchors(path)
