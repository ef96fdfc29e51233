"""Prices without a replay: power by kind of kernel, from the estimator, corrected by the meter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array  # type: ignore[import-untyped]
from typing_extensions import override

from joulelab.attribution.prices import Prices, Pricing, prior_of
from joulelab.attribution.profile import PhaseProfile
from joulelab.core.measurement import Measurement
from joulelab.core.point import OperatingPoint
from joulelab.errors import MeasurementError
from joulelab.estimator.pricing import predict
from joulelab.hardware.processor import Processor
from joulelab.tracing.program import Operator, ProgramPhase, TracedModel

KIND = 0.2
"""How far the estimator's power of a kind of kernel is off, one standard deviation."""
COMMON = 0.1
"""The part of that which all kinds share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedCall:
    """What the estimator says of one operator call.

    Attributes:
        operator: The call.
        energy_j: Energy while it is on the device, static power included.
        device_s: Time on the device.
    """

    operator: Operator
    energy_j: float
    device_s: float


def estimated_calls(
    processor: Processor, phases: Sequence[ProgramPhase], point: OperatingPoint, precision: str
) -> Mapping[str, tuple[EstimatedCall, ...]]:
    """Return what the estimator says of one execution of each phase, call by call.

    Raises:
        ConfigError: If the processor lacks the precision, or the point is off its range.
    """
    model = TracedModel(name="", unit="", batch=1, precision=precision, phases=tuple(phases))
    found = predict.estimate(model, processor, point=point)
    return {
        traced.phase: tuple(
            EstimatedCall(
                operator=operator,
                energy_j=group.power_w * group.device_s / traced.count,
                device_s=group.device_s / traced.count,
            )
            for operator, group in zip(traced.program.operators, phase.groups, strict=True)
        )
        for traced, phase in zip(phases, found.phases, strict=True)
    }


class Estimated(Pricing):
    """Prices seconds on the device by the estimator's power above static, kind by kind.

    Args:
        calls: What the estimator says, by phase.
        static_w: What it takes for static power.
    """

    method = "classes"

    def __init__(self, calls: Mapping[str, Sequence[EstimatedCall]], static_w: float) -> None:
        self._power = _power_by_class(calls, static_w)

    @override
    def prices(
        self, profiles: Sequence[PhaseProfile], measured: Mapping[str, Measurement]
    ) -> Prices:
        if not self._power:
            raise MeasurementError("The estimator knows no kernel of the program.")
        names = tuple(self._power)
        places = {name: place for place, name in enumerate(names)}
        usual = int(np.argsort([self._power[name] for name in names])[len(names) // 2])
        dynamic_w = np.array([self._power[name] for name in names])
        prior = prior_of(dynamic_w, np.maximum(KIND * dynamic_w, 1.0), COMMON)
        holds = {one.phase: self._holds(one, places, usual) for one in profiles}
        return Prices(names=names, prior=prior, holds=holds)

    def _holds(self, profile: PhaseProfile, places: Mapping[str, int], usual: int) -> csr_array:
        columns = [places.get(kernel_class(call.operator), usual) for call in profile.calls]
        seconds = [call.device_s for call in profile.calls]
        starts = np.arange(len(columns) + 1)
        return csr_array((seconds, columns, starts), shape=(len(columns), len(places)))


def kernel_class(operator: Operator) -> str:
    """Return the class of activity of an operator: its kind, and how much it computes per byte."""
    intensity = operator.flop / operator.moved_b if operator.moved_b else 0.0
    if operator.shape is None:
        return operator.kind
    level = "low" if intensity < 30 else "middle" if intensity < 150 else "high"
    return f"{operator.kind}, {level} intensity"


def _power_by_class(
    calls: Mapping[str, Sequence[EstimatedCall]], static_w: float
) -> dict[str, float]:
    totals: dict[str, list[float]] = {}
    for each in calls.values():
        for call in each:
            total = totals.setdefault(kernel_class(call.operator), [0.0, 0.0])
            total[0] += call.energy_j - static_w * call.device_s
            total[1] += call.device_s
    return {name: max(0.0, joules / seconds) for name, (joules, seconds) in totals.items()}
