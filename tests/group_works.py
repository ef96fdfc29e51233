"""Groups of kernels and one invented processor per architecture family, of round numbers."""

from typing import Any

from hypothesis import strategies as st

from joulelab.core.cost import Pipe
from joulelab.estimator.architecture import GroupWork
from joulelab.estimator.estimate import EnergySplit
from joulelab.hardware.processor import (
    MatrixEngine,
    MemoryLevel,
    Processor,
    ProcessorPower,
    ProcessorTiming,
    VoltageCurve,
)
from joulelab.tracing.program import MatrixShape, Operator

KIB, MIB = 1024, 1024**2
NO_ENERGY = EnergySplit(compute_j=0.0, memory_j=0.0, static_j=0.0)
KINDS = (
    "gemm",
    "conv",
    "attention",
    "norm",
    "softmax",
    "reduction",
    "gather",
    "copy",
    "elementwise",
)


def level(name: str, size_b: float, byte_j: float = 0.0) -> MemoryLevel:
    """A level of 1 TB/s."""
    on_core_clock = name != "DRAM"
    return MemoryLevel(
        name=name,
        size_b=size_b,
        bandwidth_b_per_s=1e12,
        byte_j=byte_j,
        on_core_clock=on_core_clock,
    )


def processor(
    family: str,
    *,
    architecture: str = "",
    num_cores: int = 4,
    flop_per_clock_per_core: dict[Pipe, float],
    tile: tuple[int, int] = (128, 128),
    levels: tuple[MemoryLevel, ...],
) -> Processor:
    """A processor of 1 GHz at its minimum voltage, 10 W constant and 2 W per GHz of clocks."""
    pipes = flop_per_clock_per_core
    return Processor(
        key=f"invented_{family}",
        product_name=f"Invented {family}",
        family=family,
        architecture=architecture,
        node_nm=7.0,
        tier="D",
        clocks_mhz=(500.0, 1000.0, 2000.0),
        num_cores=num_cores,
        flop_per_clock={pipe: num_cores * flop for pipe, flop in pipes.items()},
        engine=MatrixEngine(num_engines=num_cores, tiles=((*tile, 1.0),)),
        levels=levels,
        power_limits_w=(20.0, 100.0),
        default_power_limit_w=100.0,
        voltage=VoltageCurve(ridge_mhz=1000.0, slope_per_ghz=1.0, curvature_per_ghz2=0.0),
        power=ProcessorPower(
            idle_w=5.0,
            constant_w=10.0,
            clock_w_per_ghz=2.0,
            busy_w_per_ghz=3.0,
            flop_j=dict.fromkeys(pipes, 1e-12),
            zeros_factor=0.5,
        ),
        timing=ProcessorTiming(
            pipe_efficiency=dict.fromkeys(pipes, 0.8),
            memory_efficiency=0.9,
            memory_knee_mhz=500.0,
            kernel_overhead_s=1e-6,
            eager_launch_s={"default": 1e-5},
            graph_launch_s=1e-6,
        ),
    )


def gpu(architecture: str = "Ampere") -> Processor:
    """Tiles of 128x128; registers and shared memory at prices of the table."""
    return processor(
        "gpu",
        architecture=architecture,
        flop_per_clock_per_core={
            "fp64": 64,
            "fp32": 128,
            "tensor_tf32": 512,
            "tensor_fp16": 1024,
            "tensor_bf16": 1024,
            "tensor_fp8": 2048,
            "tensor_int8": 2048,
        },
        levels=(level("L2", 4 * MIB, 2e-11), level("DRAM", 16e9, 6e-11)),
    )


def cpu(
    flop_per_clock: float = 64.0, *, tensor_bf16: float = 1024.0, tensor_int8: float = 2048.0
) -> Processor:
    """Four cores of 32 KiB L1, 1 MiB L2 and 8 MiB L3; AVX-512 and AMX by default."""
    return processor(
        "cpu",
        flop_per_clock_per_core={
            "fp32": flop_per_clock,
            "fp64": flop_per_clock / 2,
            "tensor_bf16": tensor_bf16,
            "tensor_int8": tensor_int8,
        },
        levels=(
            level("L1", 4 * 32 * KIB),
            level("L2", 4 * MIB),
            level("L3", 8 * MIB, 3e-11),
            level("DRAM", 64e9, 2e-10),
        ),
    )


def tpu(size: int = 128) -> Processor:
    """Arrays of ``size`` x ``size``."""
    return processor(
        "tpu",
        num_cores=2,
        flop_per_clock_per_core={"fp32": 4096, "tensor_bf16": 65536, "tensor_int8": 65536},
        tile=(size, size),
        levels=(level("unified buffer", 32 * MIB, 1e-11), level("DRAM", 32e9, 6e-11)),
    )


def kpu() -> Processor:
    """Sixteen tiles of 16x16."""
    return processor(
        "kpu",
        num_cores=16,
        flop_per_clock_per_core={"fp32": 64, "tensor_bf16": 512, "tensor_int8": 512},
        tile=(16, 16),
        levels=(
            level("L1", 16 * 256 * KIB),
            level("L2", 16 * 32 * KIB),
            level("L3", 4 * MIB, 2e-12),
            level("DRAM", 8e9, 8e-11),
        ),
    )


PROCESSORS = (cpu(), gpu(), tpu(), kpu())


def gemm(
    m: int, n: int, k: int, *, pipe: Pipe = "tensor_bf16", batch: int = 1, operand_b: int = 2
) -> Operator:
    """A product of (m, k) with parameters (k, n)."""
    return Operator(
        name="mm",
        kind="gemm",
        dtype="bfloat16" if operand_b == 2 else "float32",
        pipe=pipe,
        flop=2.0 * batch * m * n * k,
        read_b=float(batch * m * k * operand_b),
        weight_b=float(batch * k * n * operand_b),
        written_b=float(batch * m * n * operand_b),
        shape=MatrixShape(batch=batch, m=m, n=n, k=k),
    )


def streaming(
    read_b: float,
    written_b: float,
    *,
    flop: float = 0.0,
    kind: str = "elementwise",
    name: str = "add",
    contiguous: float = 1.0,
) -> Operator:
    """An operator on words of four bytes that is no product."""
    return Operator(
        name=name,
        kind=kind,
        pipe="fp32",
        flop=flop,
        read_b=read_b,
        weight_b=0.0,
        written_b=written_b,
        contiguous=contiguous,
    )


def group(*operators: Operator, energy: EnergySplit = NO_ENERGY, **changes: Any) -> GroupWork:
    """One run of ``operators``, each between memory and memory, that takes 1 ms at 1 GHz."""
    count = changes.pop("count", 1)
    values: dict[str, Any] = {
        "kind": operators[0].kind,
        "operators": operators,
        "count": count,
        "read_b": count * sum(operator.read_b for operator in operators),
        "weight_b": count * sum(operator.weight_b for operator in operators),
        "written_b": count * sum(operator.written_b for operator in operators),
        "moved_b": {},
        "device_s": 1e-3,
        "wait_s": 0.0,
        "clock_mhz": 1000.0,
        "waiting_mhz": 1000.0,
        "energy": energy,
    }
    return GroupWork(**{**values, **changes})


def sides() -> st.SearchStrategy[int]:
    """Sides of matrices, one and odd ones included."""
    return st.integers(1, 20_000)


@st.composite
def operators(draw: st.DrawFn) -> Operator:
    """Any operator of any kind, of a known shape or not."""
    kind = draw(st.sampled_from(KINDS))
    moved_b = st.floats(0.0, 1e12)
    if kind not in ("gemm", "conv", "attention"):
        flop = draw(st.floats(0.0, 1e13))
        return streaming(
            draw(moved_b), draw(moved_b), flop=flop, kind=kind, contiguous=draw(st.floats(0.0, 1.0))
        )
    shape = MatrixShape(
        batch=draw(st.integers(1, 64)), m=draw(sides()), n=draw(sides()), k=draw(sides())
    )
    one = 2.0 * shape.batch * shape.m * shape.n * shape.k
    return Operator(
        name=kind,
        kind=kind,
        pipe=draw(st.sampled_from(("fp32", "tensor_bf16", "tensor_int8"))),
        flop=draw(st.sampled_from((0.0, one, 2 * one))),
        read_b=draw(moved_b),
        weight_b=draw(moved_b),
        written_b=draw(moved_b),
        shape=shape if draw(st.booleans()) else None,
        has_formula=draw(st.booleans()),
    )


def energies() -> st.SearchStrategy[EnergySplit]:
    """Energies from nothing to a gigajoule, in any proportion."""
    energy_j = st.one_of(st.just(0.0), st.floats(1e-15, 1e9))
    return st.builds(EnergySplit, compute_j=energy_j, memory_j=energy_j, static_j=energy_j)


@st.composite
def groups(draw: st.DrawFn) -> GroupWork:
    """Any group of up to five operators, running and waiting for any time."""
    members = draw(st.lists(operators(), min_size=1, max_size=5))
    time_s = st.one_of(st.just(0.0), st.floats(1e-9, 1e3))
    return group(
        *members,
        energy=draw(energies()),
        count=draw(st.integers(1, 1000)),
        device_s=draw(time_s),
        wait_s=draw(time_s),
        clock_mhz=draw(st.floats(500.0, 2000.0)),
        waiting_mhz=draw(st.floats(500.0, 2000.0)),
        busy=draw(st.floats(0.0, 1.0)),
        core_share=draw(st.floats(0.0, 1.0)),
    )
