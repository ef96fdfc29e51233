"""Fits a processor's free scalars to micro-benchmarks, by bounded least squares of log errors.

Points that break physics are refused first, each with its reason. Each scalar is fitted to the
points that identify it (:mod:`joulelab.estimator.calibration.stages`); whatever no point
identifies keeps its value. The errors of all points are returned, fitted to or not. What
``joulelab calibrate --board`` found of one board stands for micro-benchmarks as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean

import numpy as np

from joulelab.errors import ConfigError
from joulelab.estimator.calibration.anchors import Anchor, Pricing, rejections
from joulelab.estimator.calibration.stages import Stage, stages
from joulelab.estimator.pricing.table import Array
from joulelab.hardware.board_facts import BoardFacts
from joulelab.hardware.catalogue import spec_for
from joulelab.hardware.processor import Processor
from joulelab.hardware.scalars import bounds_of, value_of, with_values
from joulelab.tracing.precision import element_b
from joulelab.tracing.program import MatrixShape

_MAX_ROUNDS = 10
_SETTLED = 1e-3
"""Change of every logarithm over a round below which the fit has ended."""
_TINY = 1e-30
_STEP = 1e-4
"""Change of a logarithm by which its effect is found; the clock is found less finely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedFigure:
    """A scalar before and after."""

    name: str
    before: float
    value: float
    num_points: int
    at_bound: bool  # whether it ran into a bound, so that the points do not identify it


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """A micro-benchmark and what the calibrated processor says of it."""

    anchor: Anchor
    time_error: float  # predicted over measured time, less 1
    energy_error: float | None  # the same of energy; None if it was not measured
    fitted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A calibrated processor."""

    processor: Processor
    figures: tuple[FittedFigure, ...]
    residuals: tuple[Residual, ...]  # one for each point that was not refused
    rejected: Mapping[str, str]  # why points were refused, by name

    @property
    def time_error(self) -> float:
        """Mean absolute relative error of time over all points that ran on the device."""
        return fmean(abs(one.time_error) for one in self.residuals if one.anchor.mode == "graph")

    @property
    def energy_error(self) -> float:
        """The same of energy."""
        errors = [one.energy_error for one in self.residuals if one.anchor.mode == "graph"]
        return fmean(abs(error) for error in errors if error is not None)


def calibrate(processor: Processor, anchors: Sequence[Anchor]) -> Calibration:
    """Fit the free scalars of ``processor`` to ``anchors``; ConfigError if none can be used."""
    rejected = rejections(processor, anchors)
    pipes = processor.flop_per_clock  # of the formats that it has
    kept = [
        anchor
        for anchor in anchors
        if anchor.name not in rejected and (anchor.mode != "graph" or anchor.operator.pipe in pipes)
    ]
    planned = stages(processor, kept)
    if not planned:
        raise ConfigError(
            f"Calibrating {processor.key} needs micro-benchmarks measured on it; of "
            f"{len(anchors)} given, {len(rejected)} were refused and none identifies a scalar."
        )
    pricings = [Pricing([kept[row] for row in stage.rows]) for stage in planned]
    fitted = processor
    for _ in range(_MAX_ROUNDS):
        previous = fitted
        for stage, pricing in zip(planned, pricings, strict=True):
            fitted = _fit(fitted, processor, [kept[row] for row in stage.rows], stage, pricing)
        if _change(previous, fitted, planned) < _SETTLED:
            break
    fitted = _in_modules(fitted, [anchor for anchor in kept if anchor.kinds])
    return Calibration(
        processor=fitted,
        figures=tuple(_figures(processor, fitted, planned)),
        residuals=_residuals(fitted, kept, planned),
        rejected=rejected,
    )


def _fit(
    current: Processor, before: Processor, anchors: list[Anchor], stage: Stage, pricing: Pricing
) -> Processor:
    names = stage.parameters
    limits = np.log([bounds_of(before, name) for name in names]).T
    present = np.log([max(value_of(current, name), _TINY) for name in names])
    start = np.clip(present, limits[0], limits[1])
    measured_s = np.log([anchor.time_s for anchor in anchors])
    measured_j = np.log([anchor.energy_j or np.nan for anchor in anchors])

    def errors(logs: Array) -> Array:
        tried = with_values(current, _values(names, logs))
        prices = pricing.on(tried, at_measured_clocks=True)
        parts = []
        if stage.fits_time:
            parts.append(np.log(prices.time_s) - measured_s)
        if stage.fits_energy:
            parts.append(np.log(prices.energy_j) - measured_j)
        return np.concatenate(parts)

    # Commands that fit nothing load this module, too, and run without SciPy.
    from scipy.optimize import least_squares  # type: ignore[import-untyped]

    found = least_squares(
        errors,
        start,
        bounds=(limits[0] - 1e-9, limits[1] + 1e-9),  # a start on a bound lies within
        loss="soft_l1",
        f_scale=0.1,
        diff_step=_STEP,
    )
    return with_values(current, _values(names, found.x))


def _in_modules(processor: Processor, chains: list[Anchor]) -> Processor:
    """Lengthen all launches alike to what chains of modules take: modules are Python, too."""
    if not chains:
        return processor
    prices = Pricing(chains).on(processor)
    measured_s = np.array([chain.time_s for chain in chains])
    factor = float(np.exp(np.mean(np.log(measured_s / prices.time_s))))
    launches = {kind: factor * one for kind, one in processor.timing.eager_launch_s.items()}
    return replace(processor, timing=replace(processor.timing, eager_launch_s=launches))


def _change(before: Processor, after: Processor, planned: Sequence[Stage]) -> float:
    names = [name for stage in planned for name in stage.parameters]
    return max(
        abs(log(value_of(after, name) / max(value_of(before, name), _TINY))) for name in names
    )


def _values(names: Sequence[str], logs: Array) -> dict[str, float]:
    return {name: exp(value) for name, value in zip(names, logs, strict=True)}


def _figures(before: Processor, after: Processor, planned: Sequence[Stage]) -> list[FittedFigure]:
    return [
        FittedFigure(
            name=name,
            before=value_of(before, name),
            value=value_of(after, name),
            num_points=len(stage.rows),
            at_bound=_is_at_bound(before, after, name),
        )
        for stage in planned
        for name in stage.parameters
    ]


def _is_at_bound(before: Processor, after: Processor, name: str) -> bool:
    value = log(value_of(after, name))
    return any(abs(value - log(bound)) < 1e-3 for bound in bounds_of(before, name))


def _residuals(
    processor: Processor, anchors: Sequence[Anchor], planned: Sequence[Stage]
) -> tuple[Residual, ...]:
    prices = Pricing(anchors).on(processor)
    fitted = {row for stage in planned for row in stage.rows}
    return tuple(
        Residual(
            anchor=anchor,
            time_error=float(prices.time_s[row]) / anchor.time_s - 1,
            energy_error=(
                float(prices.energy_j[row]) / anchor.energy_j - 1 if anchor.energy_j else None
            ),
            fitted=row in fitted,
        )
        for row, anchor in enumerate(anchors)
    )


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
    """Fit ``processor`` to what was measured of a board; ConfigError if that is another product."""
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
