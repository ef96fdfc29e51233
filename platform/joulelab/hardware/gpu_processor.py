"""A GPU as a processor: the coefficients of the simulated board in the estimator's form.

Power per GHz at the peak of a pipe becomes energy per operation, the crossbar becomes the byte
energy of the L2 cache, and the share of SMs that a large kernel keeps busy is folded in, so both
give the same power for the same work.
"""

from joulelab.hardware.chip import BUSY_SM_SHARE
from joulelab.hardware.processor import (
    MatrixEngine,
    MemoryLevel,
    Processor,
    ProcessorPower,
    ProcessorTiming,
)
from joulelab.hardware.spec import GpuSpec


def processor_of(spec: GpuSpec) -> Processor:
    """Return the GPU ``spec`` as the estimator sees it."""
    return Processor(
        key=spec.key,
        product_name=spec.product_names[0],
        family="gpu",
        architecture=spec.architecture,
        node_nm=spec.chip.node_nm,
        tier=spec.chip.tier,
        clocks_mhz=(spec.sm_clocks_mhz[-1], spec.default_clock_mhz, spec.max_clock_mhz),
        num_cores=spec.sm_count,
        flop_per_clock={
            pipe: spec.sm_count * flop for pipe, flop in spec.flop_per_clock_per_sm.items()
        },
        engine=MatrixEngine(num_engines=spec.sm_count, tiles=spec.chip.tiles),
        levels=_levels(spec),
        power_limits_w=spec.power_limits_w,
        default_power_limit_w=spec.default_power_limit_w,
        voltage=spec.voltage,
        power=_power(spec),
        timing=_timing(spec),
        link_b_per_s=spec.link.bandwidth_b_per_s,
        link_byte_j=spec.link.byte_j,
        figures=spec.figures,
    )


def _levels(spec: GpuSpec) -> tuple[MemoryLevel, ...]:
    chip, clock_hz = spec.chip, spec.default_clock_mhz * 1e6
    registers = MemoryLevel(
        name="register file",
        size_b=spec.sm_count * chip.register_file_b,
        bandwidth_b_per_s=spec.sm_count * chip.register_b_per_clock * clock_hz,
        byte_j=chip.register_byte_j,
        on_core_clock=True,
    )
    shared = MemoryLevel(
        name="shared memory",
        size_b=spec.sm_count * chip.shared_b,
        bandwidth_b_per_s=spec.sm_count * chip.shared_b_per_clock * clock_hz,
        byte_j=chip.shared_byte_j,
        on_core_clock=True,
    )
    l2 = MemoryLevel(
        name="L2",
        size_b=spec.l2_b,
        bandwidth_b_per_s=chip.l2_b_per_clock * clock_hz,
        byte_j=spec.power.crossbar_j_per_b,
        on_core_clock=True,
    )
    dram = MemoryLevel(
        name="DRAM",
        size_b=spec.memory_b,
        bandwidth_b_per_s=spec.memory_bandwidth_b_per_s,
        byte_j=spec.power.dram_j_per_b,
        on_core_clock=False,
    )
    return (registers, shared, l2, dram)


def _power(spec: GpuSpec) -> ProcessorPower:
    power = spec.power
    return ProcessorPower(
        idle_w=power.idle_w,
        constant_w=power.constant_w,
        clock_w_per_ghz=power.clock_tree_w_per_ghz,
        busy_w_per_ghz=power.sm_w_per_ghz * BUSY_SM_SHARE,
        flop_j={
            pipe: w_per_ghz / (spec.sm_count * spec.flop_per_clock_per_sm[pipe] * 1e9)
            for pipe, w_per_ghz in power.pipe_w_per_ghz.items()
        },
        zeros_factor=power.zeros_factor,
    )


def _timing(spec: GpuSpec) -> ProcessorTiming:
    timing = spec.timing
    return ProcessorTiming(
        pipe_efficiency=timing.pipe_efficiency,
        memory_efficiency=timing.memory_efficiency,
        memory_knee_mhz=timing.memory_knee_mhz,
        kernel_overhead_s=timing.kernel_overhead_s,
        eager_launch_s={"default": timing.host_launch_s, **spec.eager_launch_s},
        graph_launch_s=spec.chip.graph_launch_s,
        kind_efficiency=spec.kind_efficiency,
        cache_flop_per_b=timing.cache_flop_per_b,
        tensor_ceiling_start=timing.tensor_ceiling_start,
        tensor_ceiling_mhz=timing.tensor_ceiling_mhz,
    )
