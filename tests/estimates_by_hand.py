"""Estimates of an invented network on an invented processor, whose sums are known.

Each execution of ``network`` takes 10 ms and 2 J for 8 images: 1 J compute in a product of 4 ms,
0.5 J memory in a copy of 2 ms, 0.5 J static over all of it, 4 ms of which wait for a launch.
"""

from dataclasses import replace

from joulelab.core.point import OperatingPoint
from joulelab.estimator.estimate import (
    Concurrency,
    Confidence,
    EnergySplit,
    Estimate,
    Event,
    GroupEstimate,
    PhaseEstimate,
)
from joulelab.estimator.pricing.memory import MemoryEstimate
from joulelab.estimator.question import Cell
from joulelab.hardware.processor import (
    MatrixEngine,
    MemoryLevel,
    Processor,
    ProcessorPower,
    ProcessorTiming,
    VoltageCurve,
)

EVENTS = (
    Event(
        path="compute/matrix units/mma", count=4e6, unit="instructions", energy_j=0.75, raw_j=0.1875
    ),
    Event(path="compute/operands/registers", count=8e8, unit="bytes", energy_j=0.25, raw_j=0.0625),
    Event(path="memory/L2", count=2e9, unit="bytes", energy_j=0.2, raw_j=0.05),
    Event(path="memory/DRAM", count=1e9, unit="bytes", energy_j=0.3, raw_j=0.075),
    Event(path="static/busy", count=6e6, unit="cycles", energy_j=0.3, raw_j=0.075),
    Event(path="static/waiting", count=4e6, unit="cycles", energy_j=0.2, raw_j=0.05),
)


def processor(key="invented", **changes):
    made = Processor(
        key=key,
        product_name=f"{key.title()} Board",
        family="gpu",
        architecture="Invention",
        node_nm=5,
        tier="B",
        clocks_mhz=(200, 1000, 1000),
        num_cores=10,
        flop_per_clock={"fp32": 2e4, "tensor_fp16": 2e5},
        engine=MatrixEngine(num_engines=10, tiles=((128, 128, 1.0),)),
        levels=(
            MemoryLevel(
                name="L2", size_b=40e6, bandwidth_b_per_s=4e12, byte_j=1e-11, on_core_clock=True
            ),
            MemoryLevel(
                name="DRAM", size_b=80e9, bandwidth_b_per_s=1e12, byte_j=1e-10, on_core_clock=False
            ),
        ),
        power_limits_w=(100, 400),
        default_power_limit_w=400,
        voltage=VoltageCurve(ridge_mhz=800, slope_per_ghz=0.5, curvature_per_ghz2=0.0),
        power=ProcessorPower(
            idle_w=40,
            constant_w=50,
            clock_w_per_ghz=20,
            busy_w_per_ghz=50,
            flop_j={"fp32": 1e-11, "tensor_fp16": 1e-12},
            zeros_factor=0.4,
        ),
        timing=ProcessorTiming(
            pipe_efficiency={"fp32": 0.9, "tensor_fp16": 0.8},
            memory_efficiency=0.9,
            memory_knee_mhz=500,
            kernel_overhead_s=2e-6,
            eager_launch_s={"default": 8e-6},
            graph_launch_s=1e-6,
        ),
    )
    return replace(made, **changes)


PRODUCT = GroupEstimate(
    name="layer1.fc: addmm",
    module="layer1.fc",
    kind="gemm",
    operators=("addmm",),
    count=1,
    flop={"tensor_fp16": 4e11},
    moved_b={"L2": 2e9, "DRAM": 1e9},
    device_s=4e-3,
    elapsed_s=8e-3,
    roofline_s=2e-3,
    bound="launch",
    clock_mhz=1000,
    power_w=300,
    energy=EnergySplit(compute_j=1.0, memory_j=0.25, static_j=0.4),
    events=EVENTS,
)
COPY = GroupEstimate(
    name="layer2: clone",
    module="layer2.pool",
    kind="copy",
    operators=("clone", "relu"),
    count=3,
    flop={},
    moved_b={"DRAM": 1.8e9},
    device_s=2e-3,
    elapsed_s=2e-3,
    roofline_s=1.8e-3,
    bound="memory",
    clock_mhz=1000,
    power_w=175,
    energy=EnergySplit(compute_j=0.0, memory_j=0.25, static_j=0.1),
)
MEMORY = MemoryEstimate(
    weight_b=20e9,
    activation_b=8e9,
    kv_b=4e9,
    input_b=1e9,
    gradient_b=0,
    optimizer_b=0,
    workspace_b=2e9,
    capacity_b=80e9,
    timeline_b=(25e9, 28e9, 35e9, 27e9),
)


def phase(name="forward", **changes):
    made = PhaseEstimate(
        phase=name,
        work=8.0,
        latency_s=10e-3,
        roofline_s=3.8e-3,
        energy=EnergySplit(compute_j=1.0, memory_j=0.5, static_j=0.5),
        power_w=200.0,
        peak_power_w=300.0,
        throttled_fraction=0.25,
        waiting_j=0.2,
        unit_share=0.3,
        memory_share=0.08,
        groups=(PRODUCT, COPY),
        memory=MEMORY,
        concurrency=Concurrency(
            num_groups=4, critical_path=2, mean_width=2.0, max_width=3, critical_s=5e-3
        ),
        events=EVENTS,
    )
    return replace(made, **changes)


def estimate(**changes):
    made = Estimate(
        model="network",
        unit="image",
        device="invented",
        num_devices=1,
        precision="fp16",
        batch=8,
        mode="eager",
        point=OperatingPoint(),
        cap_w=400.0,
        phases=(phase(),),
        confidence=Confidence(tier="B", time_error=0.12, energy_error=0.1, num_points=36),
        data_energy_j=(1.4, 2.0),
    )
    return replace(made, **changes)


def cell(found=None, *, on=None, **changes):
    found = found or estimate(**changes)
    return Cell(
        model=found.model,
        processor=on or processor(),
        precision=found.precision,
        batch=found.batch,
        estimate=found,
    )


def refused(problem="the processor has no fp8; it has: fp32, fp16.", **changes):
    made = {"model": "network", "processor": processor(), "precision": "fp8", "batch": 8}
    return Cell(**{**made, **changes}, problem=problem)
