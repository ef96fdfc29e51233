"""A processor with the figures of one board, as ``joulelab calibrate --board`` found them."""

from collections.abc import Iterator, Mapping

from joulelab.errors import ConfigError
from joulelab.estimator.calibration.anchors import Anchor
from joulelab.estimator.calibration.fit import Calibration, calibrate
from joulelab.hardware.board_facts import BoardFacts
from joulelab.hardware.catalogue import spec_for
from joulelab.hardware.processor import Processor
from joulelab.tracing.precision import element_b
from joulelab.tracing.program import MatrixShape

_DTYPES: Mapping[str, str] = {
    "fp64": "float64",
    "fp32": "float32",
    "tf32": "tf32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8",
}
_SIDE = 8192
_COPIED_B = 8e9
"""Rows of the products and bytes of the copy that boards are measured with."""


def calibrated_to(processor: Processor, facts: BoardFacts) -> Calibration:
    """Fit ``processor`` to the power, bandwidth and products of the board of ``facts``.

    Raises:
        ConfigError: If the board is another product, or its file has no rate.
    """
    spec = spec_for(facts.device.name)
    if spec is None or spec.key != processor.key.partition(":")[0]:
        raise ConfigError(
            f"The calibration must be of a board of the device that is asked for, "
            f"{processor.product_name}, but is of {facts.device.name}; ask for that device, or "
            "calibrate one of these: joulelab calibrate --board."
        )
    return calibrate(processor, tuple(board_anchors(facts)))


def board_anchors(facts: BoardFacts) -> Iterator[Anchor]:
    """Yield what was measured of a board as micro-benchmarks, those that could be."""
    if (waiting_w := facts.value("waiting_power_w")) is not None:
        yield Anchor(
            name="waiting", kind="idle", dtype="", mode="idle", time_s=1.0, power_w=waiting_w
        )
    if (b_per_s := facts.value("memory_b_per_s")) is not None:
        yield Anchor(
            name="copy",
            kind="copy",
            dtype="float32",
            mode="graph",
            elements=_COPIED_B / 8,
            moved_b=_COPIED_B,
            time_s=_COPIED_B / b_per_s,
            power_w=facts.value("power_w.memory"),
            clock_mhz=facts.value("sm_clock_mhz.memory"),
        )
    for precision in _DTYPES:
        if (flop_per_s := facts.value(f"flop_per_s.{precision}")) is not None:
            yield _product(facts, precision, flop_per_s)


def _product(facts: BoardFacts, precision: str, flop_per_s: float) -> Anchor:
    dtype = _DTYPES[precision]
    flop = 2.0 * _SIDE**3
    stored_b = element_b({"tf32": "float32", "float8": "float8_e4m3fn"}.get(dtype, dtype))
    return Anchor(
        name=f"product in {precision}",
        kind="gemm",
        dtype=dtype,
        mode="graph",
        shape=MatrixShape(batch=1, m=_SIDE, n=_SIDE, k=_SIDE),
        elements=float(_SIDE**2),
        flop=flop,
        moved_b=3 * _SIDE**2 * stored_b,
        time_s=flop / flop_per_s,
        power_w=facts.value(f"power_w.{precision}"),
        clock_mhz=facts.value(f"sm_clock_mhz.{precision}"),
    )
