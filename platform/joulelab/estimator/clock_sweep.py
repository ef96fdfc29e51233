"""Predicted time and energy over core clocks, and which clock is best."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from joulelab.core.point import OperatingPoint
from joulelab.estimator.pricing import predict
from joulelab.estimator.question import Combination, Progress, Question, Tracer, clock_grid
from joulelab.objectives import without_quality


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve(Combination):
    """One phase of a combination, over core clocks.

    Attributes:
        clocks_mhz: Requested clocks, ascending; the default is among them.
        default: Index of the default clock.
    """

    phase: str
    unit: str
    work: float
    clocks_mhz: tuple[int, ...]
    default: int
    latency_s: tuple[float, ...]
    energy_j: tuple[float, ...]

    def costs(self, objective: str) -> list[float]:
        """Return ``objective`` at each clock; lower is better.

        Raises UnknownNameError if there is no such objective.
        """
        cost = without_quality(objective).cost
        return [cost(*pair) for pair in zip(self.energy_j, self.latency_s, strict=True)]

    def best(self, objective: str) -> int:
        """Return the index of the clock at which ``objective`` is lowest."""
        costs = self.costs(objective)
        return min(range(len(costs)), key=costs.__getitem__)

    def near_best(self, objective: str, *, within: float = 0.01) -> tuple[int, int]:
        """Return the first and last index of the clocks next to the best, all within a share."""
        costs = self.costs(objective)
        first = last = self.best(objective)
        limit = costs[first] * (1 + within)
        while first > 0 and costs[first - 1] <= limit:
            first -= 1
        while last + 1 < len(costs) and costs[last + 1] <= limit:
            last += 1
        return first, last


def sweep(
    question: Question, *, clocks_mhz: Sequence[int] = (), progress: Progress
) -> tuple[Curve, ...]:
    """Predict every combination of ``question`` at ``clocks_mhz``; of none given, over the range.

    Raises ConfigError if a clock is off the range of a device, or the device lacks a precision.
    """
    tracer = Tracer(question, progress)
    return tuple(
        curve
        for combination in question.combinations()
        for curve in _curves(question, tracer, combination, clocks_mhz)
    )


def _curves(
    question: Question, tracer: Tracer, combination: Combination, clocks_mhz: Sequence[int]
) -> Iterator[Curve]:
    processor = combination.processor
    clocks = clock_grid(processor, clocks_mhz)
    traced = tracer.of(combination)
    limit_w = question.point.power_limit_w
    found = predict.totals(
        traced,
        [processor],
        mode=question.mode,
        points=[OperatingPoint(sm_clock_mhz=clock, power_limit_w=limit_w) for clock in clocks],
        num_devices=question.num_devices,
    )
    for place, phase in enumerate(traced.phases):
        yield Curve(
            model=combination.model,
            processor=processor,
            precision=combination.precision,
            batch=combination.batch,
            phase=phase.phase,
            unit=traced.unit,
            work=phase.work,
            clocks_mhz=clocks,
            default=clocks.index(round(processor.default_clock_mhz)),
            latency_s=tuple(float(value) for value in found.latency_s[0, :, place]),
            energy_j=tuple(float(value) for value in found.energy_j[0, :, place]),
        )
