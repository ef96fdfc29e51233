"""Prices without a replay: power by kind of kernel, from the estimator, corrected by the meter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array  # type: ignore[import-untyped]
from typing_extensions import override

from joulelab.attribution.prices import WAITS, WAITS_U, Array, Prices, Pricing, Solution, prior_of
from joulelab.attribution.profile import PhaseProfile
from joulelab.core.measurement import Measurement
from joulelab.core.point import OperatingPoint
from joulelab.errors import MeasurementError
from joulelab.estimator.pricing import predict
from joulelab.hardware.processor import Processor
from joulelab.tracing.program import Operator, ProgramPhase, TracedModel

_LEAST_W = 5.0
KERNEL, KIND, COMMON = 0.25, 0.25, 0.15
"""How far the power of a kernel is from that of its class, of a class from the estimator's, and of
all classes from it: one standard deviation each, relative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedCall:
    """What the estimator says of one operator call."""

    operator: Operator
    energy_j: float  # energy while it is on the device, static power included
    device_s: float


def estimated_calls(
    processor: Processor,
    phases: Sequence[ProgramPhase],
    point: OperatingPoint,
    precision: str,
    num_devices: int = 1,
) -> Mapping[str, tuple[EstimatedCall, ...]]:
    """Return what the estimator says of one execution of each phase, call by call.

    Of several devices, ``phases`` are what one runs, and so is the answer. Raises ConfigError if
    the processor lacks the precision, or the point is off its range.
    """
    model = TracedModel(name="", unit="", batch=1, precision=precision, phases=tuple(phases))
    found = predict.estimate(model, processor, point=point, num_devices=num_devices)
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
    """Prices seconds on the device by the estimator's power above static, kind by kind."""

    method = "classes"

    def __init__(
        self, calls: Mapping[str, Sequence[EstimatedCall]], static_w: float, links_w: float = 0.0
    ) -> None:
        self._links_w = links_w
        self._power = {
            phase: _power_by_class(each, static_w) for phase, each in calls.items() if each
        }

    @override
    def prices(
        self, profiles: Sequence[PhaseProfile], measured: Mapping[str, Measurement]
    ) -> Prices:
        if not self._power:
            raise MeasurementError("The estimator knows no kernel of the program.")
        kernels = {
            (profile.phase, call.kernel): call for profile in profiles for call in profile.calls
        }
        classes = [(phase, kernel_class(call.operator)) for (phase, _), call in kernels.items()]
        waits = np.array([bool(call.waits_in) for call in kernels.values()])
        places = {kernel: place for place, kernel in enumerate(kernels)}
        links = np.array([bool(call.beside_s) for call in kernels.values()])
        watts = [self._watts(*each) for each in classes]
        dynamic_w = np.where(links, self._links_w, np.array(watts, dtype=np.float64))
        return Prices(
            names=tuple(f"{phase}: {kernel}" for phase, kernel in kernels),
            prior=_prior(np.where(waits, WAITS, 1.0) * dynamic_w, classes, waits),
            holds={one.phase: _holds(one, places) for one in profiles},
        )

    def _watts(self, phase: str, name: str) -> float:
        """Return the power of a class in a phase; that of the phase's others if it is unknown."""
        known = self._power.get(phase) or next(iter(self._power.values()))
        return known.get(name, float(np.median(list(known.values()))))


def _prior(
    dynamic_w: Array, classes: Sequence[tuple[str, str]], waits: NDArray[np.bool_]
) -> Solution:
    """Return powers with what is unsure of each kernel, of its class in a phase, and of all."""
    each_u = np.where(waits, WAITS_U / WAITS, KERNEL) * dynamic_w
    prior = prior_of(dynamic_w, np.maximum(each_u, _LEAST_W), COMMON)
    alike = np.array([[one == other for other in classes] for one in classes])
    shared_w = KIND * dynamic_w
    covariance = prior.covariance + alike * np.outer(shared_w, shared_w)
    return Solution(prices=prior.prices, covariance=covariance)


def _holds(profile: PhaseProfile, places: Mapping[tuple[str, str], int]) -> csr_array:
    columns = [places[profile.phase, call.kernel] for call in profile.calls]
    seconds = [call.device_s + call.beside_s for call in profile.calls]
    starts = np.arange(len(columns) + 1)
    return csr_array((seconds, columns, starts), shape=(len(columns), len(places)))


def kernel_class(operator: Operator) -> str:
    """Return the class of activity of an operator: its kind, its bytes, and its work per byte."""
    size = _level(operator.moved_b, _SIZES_B)
    if operator.shape is None:
        return f"{operator.kind}, {size} size"
    intensity = operator.flop / operator.moved_b if operator.moved_b else 0.0
    return f"{operator.kind}, {size} size, {_level(intensity, _INTENSITIES)} intensity"


_SIZES_B = (1e5, 3e6)
_INTENSITIES = (30.0, 150.0)
"""Operations per byte: below the first, memory sets the pace; above the second, units do."""


def _level(value: float, bounds: tuple[float, float]) -> str:
    return "low" if value < bounds[0] else "middle" if value < bounds[1] else "high"


def _power_by_class(calls: Sequence[EstimatedCall], static_w: float) -> dict[str, float]:
    totals: dict[str, list[float]] = {}
    for call in calls:
        total = totals.setdefault(kernel_class(call.operator), [0.0, 0.0])
        total[0] += call.energy_j - static_w * call.device_s
        total[1] += call.device_s
    return {name: max(0.0, joules / seconds) for name, (joules, seconds) in totals.items()}
