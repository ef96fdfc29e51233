"""What applications cost at every operating point, from measurements of any number of sweeps."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from joulelab.analysis.compared import EXPONENTS, comparable, fit_quantities
from joulelab.analysis.policy import Application
from joulelab.analysis.wording import board_words
from joulelab.core.configuration import KnobValue
from joulelab.core.measurement import Measurement
from joulelab.core.point import OperatingPoint
from joulelab.errors import MeasurementError
from joulelab.registry import unknown_name

DEFAULT = OperatingPoint().label

_Program = tuple[str, tuple[tuple[str, KnobValue], ...], str]


def applications_of(
    measurements: Sequence[Measurement], objective: str = "edp"
) -> tuple[Application, ...]:
    """Return every workload, set of knobs and phase as an application.

    Those without a valid measurement are left out.

    Args:
        measurements: Of sweeps on one product of GPU.
        objective: What is to be low: ``"energy"``, ``"time"``, ``"edp"`` or ``"ed2p"``.

    Raises:
        UnknownNameError: If there is no such objective.
        MeasurementError: If GPUs of several products, or real and simulated ones, were measured.
    """
    if objective not in EXPONENTS:
        raise unknown_name("objective", objective, EXPONENTS)
    _require_one_product(measurements)
    groups: defaultdict[_Program, list[Measurement]] = defaultdict(list)
    for m in measurements:
        groups[m.configuration.workload, m.configuration.knobs, m.phase].append(m)
    names = _names(list(groups))
    found = []
    for program, group in groups.items():
        counted, _ = comparable(group, _label, DEFAULT)
        if counted:
            fit = getattr(fit_quantities(counted, _label), objective)
            default = DEFAULT if DEFAULT in fit.configurations else None
            found.append(Application(name=names[program], fit=fit, default=default))
    return tuple(found)


def _require_one_product(measurements: Sequence[Measurement]) -> None:
    kinds = {board_words(m.device) for m in measurements}
    if len(kinds) > 1:
        raise MeasurementError(
            f"A policy is for GPUs of one product, but these are of {', '.join(sorted(kinds))}."
        )


def _names(programs: Sequence[_Program]) -> Mapping[_Program, str]:
    """Name programs by workload, phase, and the knobs that set those of one workload apart."""
    values: defaultdict[tuple[str, str], set[KnobValue]] = defaultdict(set)
    for workload, knobs, _ in programs:
        for knob, value in knobs:
            values[workload, knob].add(value)
    names = {}
    for program in programs:
        workload, knobs, phase = program
        varying = [f"{k}={v}" for k, v in knobs if len(values[workload, k]) > 1]
        parts = [workload, "" if phase == workload else phase, *varying]
        names[program] = " ".join(part for part in parts if part)
    return names


def _label(measurement: Measurement) -> str:
    return measurement.configuration.point.label
