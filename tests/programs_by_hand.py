"""Programs and a processor of round figures, for closed forms."""

from dataclasses import replace

from joulelab.hardware.processor import (
    MatrixEngine,
    MemoryLevel,
    Processor,
    ProcessorPower,
    ProcessorTiming,
    VoltageCurve,
)
from joulelab.tracing.program import MatrixShape, Operator, Program, ProgramPhase, TracedModel

TRACED = {"fp64": ("float64", 8), "fp32": ("float32", 4), "tf32": ("float32", 4)}
TRACED |= {"bf16": ("bfloat16", 2)} | dict.fromkeys(("fp16", "fp8", "int8", "int4"), ("float16", 2))
PIPES = {"float64": "fp64", "float32": "fp32", "bfloat16": "tensor_bf16", "float16": "tensor_fp16"}


def product(m, n, k, *, precision="fp16", batch=1, kind="gemm", name="mm", **changes):
    """Return a product of activations (m, k) with weights (k, n)."""
    dtype, size = TRACED[precision]
    made = Operator(
        name=name,
        kind=kind,
        dtype=dtype,
        pipe=PIPES[dtype],
        flop=2.0 * batch * m * n * k,
        read_b=float(size * batch * m * k),
        weight_b=float(size * batch * k * n),
        written_b=float(size * batch * m * n),
        shape=MatrixShape(batch=batch, m=m, n=n, k=k),
    )
    return replace(made, **changes)


def pointwise(
    read_b, written_b=None, *, kind="elementwise", name="relu", dtype="float16", flop=0.0
):
    """Return a kernel that reads and writes so many bytes."""
    return Operator(
        name=name,
        kind=kind,
        dtype=dtype,
        flop=flop,
        read_b=float(read_b),
        weight_b=0.0,
        written_b=float(read_b if written_b is None else written_b),
    )


def program(*operators, parameter_b=1e12):
    """Return a chain of ``operators``; parameters by default exceed every cache."""
    chained = tuple(
        replace(
            operator,
            inputs=(index,),
            inputs_b=(operator.read_b,),
            outputs=(index + 1,),
            outputs_b=(operator.written_b,),
        )
        for index, operator in enumerate(operators)
    )
    return Program(operators=chained, parameter_b=parameter_b, live_b=(0.0,) * len(chained))


def model(*operators, precision="fp16", count=1, parameter_b=1e12):
    """Return a model of one phase that runs ``operators`` ``count`` times."""
    phase = ProgramPhase(
        phase="forward",
        work=1.0,
        program=program(*operators, parameter_b=parameter_b),
        count=count,
    )
    return TracedModel(name="net", unit="item", batch=1, precision=precision, phases=(phase,))


def plain_processor(**changes):
    """Return a GPU where everything is reached, whose voltage is flat and whose cap is far.

    At 1000 MHz: 100 TFLOP/s of fp16 products, 10 TFLOP/s of fp32, 1 TB/s of memory, 10 TB/s of
    cache; 100 W constant and 50 W of clocks. An fp16 operation takes 1 pJ, a fp32 one 10 pJ, a
    byte of memory 100 pJ; busy units 100 W.
    """
    pipes = {"fp32": 1e4, "tensor_fp16": 1e5, "tensor_tf32": 5e4}
    made = Processor(
        key="plain",
        product_name="Plain GPU",
        family="gpu",
        architecture="none",
        node_nm=5,
        tier="C",
        clocks_mhz=(100, 1000, 1000),
        num_cores=100,
        flop_per_clock=pipes,
        engine=MatrixEngine(num_engines=1, tiles=((1, 1, 1.0),)),
        levels=(
            MemoryLevel(
                name="L2", size_b=10e6, bandwidth_b_per_s=10e12, byte_j=0.0, on_core_clock=True
            ),
            MemoryLevel(
                name="DRAM", size_b=80e9, bandwidth_b_per_s=1e12, byte_j=1e-10, on_core_clock=False
            ),
        ),
        power_limits_w=(200, 10_000),
        default_power_limit_w=10_000,
        voltage=VoltageCurve(ridge_mhz=1e6, slope_per_ghz=0.0, curvature_per_ghz2=0.0),
        power=ProcessorPower(
            idle_w=40,
            constant_w=100,
            clock_w_per_ghz=50,
            busy_w_per_ghz=100,
            flop_j={"fp32": 1e-11, "tensor_fp16": 1e-12, "tensor_tf32": 2e-12},
            zeros_factor=0.25,
        ),
        timing=ProcessorTiming(
            pipe_efficiency=dict.fromkeys(pipes, 1.0),
            memory_efficiency=1.0,
            memory_knee_mhz=100,
            kernel_overhead_s=0.0,
            eager_launch_s={"default": 0.0},
            graph_launch_s=0.0,
        ),
        link_b_per_s=1e11,
        link_byte_j=1e-11,
    )
    return replace(made, **changes)


def with_timing(processor, **changes):
    """Return ``processor`` with other timing figures."""
    return replace(processor, timing=replace(processor.timing, **changes))
