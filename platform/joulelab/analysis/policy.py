"""One operating point, or a few, for a set of applications, and what that costs each of them.

The point of a policy has the lowest mean logarithm of the cost over all applications, so that an
application counts by ratios, whatever its size; of a few points every application takes its own
best. The regret of an application is its cost there over that at its own optimum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from joulelab.analysis.compared import (
    DEFAULT,
    ProgramKey,
    comparable,
    fit_quantities,
    point_label,
    program_of,
)
from joulelab.analysis.quantities import point_name
from joulelab.analysis.wording import varying
from joulelab.core.additive import AdditiveFit, Interval, more
from joulelab.core.comparison import best_set, over_best
from joulelab.core.device import board_words
from joulelab.core.grouping import grouped_by
from joulelab.core.measurement import Measurement
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError, MeasurementError
from joulelab.objectives import without_quality

Array = NDArray[np.float64]

_MOST_CHOICES = 400_000  # combinations of points that are compared, all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What an application costs at every operating point on one product, by its label."""

    name: str
    fit: AdditiveFit
    points: Mapping[str, OperatingPoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """How a policy serves one application."""

    name: str
    point: OperatingPoint
    own: OperatingPoint
    # Cost at point over the least, less 1, with its confidence interval: at own it is 0, by luck or
    # not, and may be as much as the interval says.
    regret: Interval
    # Cost at point over that at the driver's own point, less 1; None if that point was not
    # measured.
    change: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Points for a set of applications."""

    points: tuple[OperatingPoint, ...]
    served: tuple[Served, ...]
    mean_regret: float  # geometric mean of the regrets
    worst_regret: float
    # Single points indistinguishable from the best single one, that one first; empty for policies
    # of several points.
    equals: tuple[OperatingPoint, ...]
    # Points that could not be chosen, as not every application was measured there.
    num_left_out: int


def policies(
    applications: Sequence[Application], *, most_points: int = 2, level: float = 0.95
) -> tuple[Policy, ...]:
    """Return the best policy of one point, of two, and so on, until each has its own best.

    There are two applications or more; points that one of them lacks are not chosen, though they
    may be the best of another, and count in its regret. So the last policy has for each its best of
    the others. Raises
    ConfigError if there are fewer than two applications, two of one name, no points, or so many
    that not all combinations can be compared; MeasurementError if no operating point was measured
    with every application.
    """
    _check(applications, most_points)
    labels = _common(applications)
    if most_points > len(labels) or comb(len(labels), most_points) > _MOST_CHOICES:
        raise ConfigError(
            f"most_points must be at most {len(labels)}, the points that all applications have, "
            f"and leave at most {_MOST_CHOICES} combinations to compare; got {most_points}."
        )
    costs = np.array([_costs(each, labels) for each in applications])
    found: list[Policy] = []
    for num in range(1, most_points + 1):
        places = _chosen(costs, num)
        found.append(_policy(applications, labels, places, level=level))
        if (costs[:, places].min(axis=1) == costs.min(axis=1)).all():
            break
    return tuple(found)


def _check(applications: Sequence[Application], most_points: int) -> None:
    names = [each.name for each in applications]
    if len(names) < 2 or len(set(names)) < len(names):
        raise ConfigError(f"A policy is for two applications or more, each once; got {names}.")
    if most_points < 1:
        raise ConfigError(f"most_points must be 1 or more, got {most_points}.")


def _common(applications: Sequence[Application]) -> tuple[str, ...]:
    """Return the points that every application was measured at, the driver's default as well."""
    first = applications[0].fit.configurations
    rest = [set(each.fit.configurations) for each in applications]
    labels = tuple(label for label in first if all(label in known for known in rest))
    if not set(labels) - {DEFAULT}:
        but = " but the driver's own" if labels else ""
        raise MeasurementError(
            f"No operating point{but} was measured with every application; sweep them over the "
            "same clocks."
        )
    return labels


def _costs(application: Application, labels: Sequence[str]) -> Array:
    fit = application.fit
    return np.asarray(fit.estimate[[fit.configurations.index(label) for label in labels]])


def _chosen(costs: Array, num: int) -> tuple[int, ...]:
    """Return the places of the ``num`` points of lowest mean, each application at its best one."""
    best, chosen = np.inf, tuple[int, ...]()
    for places in combinations(range(costs.shape[1]), num):
        mean = float(costs[:, places].min(axis=1).mean())
        if mean < best:
            best, chosen = mean, places
    return chosen


def _policy(
    applications: Sequence[Application],
    labels: Sequence[str],
    places: tuple[int, ...],
    *,
    level: float,
) -> Policy:
    chosen = [labels[place] for place in places]
    known = applications[0].points
    served = tuple(_served(each, chosen, level) for each in applications)
    equals = _equals(applications, labels, level) if len(chosen) == 1 else ()
    regrets = np.array([each.regret.value for each in served])
    return Policy(
        points=tuple(known[label] for label in chosen),
        served=served,
        mean_regret=float(np.expm1(np.mean(np.log1p(regrets)))),
        worst_regret=float(regrets.max()),
        equals=tuple(known[label] for label in equals),
        num_left_out=len({label for each in applications for label in each.points}) - len(labels),
    )


def _served(application: Application, points: Sequence[str], level: float) -> Served:
    fit = application.fit
    costs = dict(zip(fit.configurations, fit.estimate.tolist(), strict=True))
    point, own = min(points, key=costs.__getitem__), min(costs, key=costs.__getitem__)
    change = more(fit.ratio(point, DEFAULT, level=level)) if DEFAULT in application.points else None
    return Served(
        name=application.name,
        point=application.points[point],
        own=application.points[own],
        regret=more(over_best(fit, point, level=level)),
        change=change,
    )


def _equals(
    applications: Sequence[Application], labels: Sequence[str], level: float
) -> tuple[str, ...]:
    """Return the single points whose mean over the applications may be the lowest."""
    num = len(applications)
    within = [[each.fit.configurations.index(label) for label in labels] for each in applications]
    grids = [np.ix_(places, places) for places in within]
    placed = [(each.fit, grid) for each, grid in zip(applications, grids, strict=True)]
    mean = AdditiveFit(
        configurations=tuple(labels),
        estimate=np.mean([_costs(each, labels) for each in applications], axis=0),
        scatter=np.sum([fit.scatter[grid] for fit, grid in placed], axis=0) / num**2,
        stated=np.sum([fit.stated[grid] for fit, grid in placed], axis=0) / num**2,
        dof=sum(each.fit.dof for each in applications),
        residual_sd=None,
        is_open=any(each.fit.is_open for each in applications),
    )
    return best_set(mean, level=level).members


def applications_of(
    measurements: Sequence[Measurement], objective: str = "edp"
) -> tuple[Application, ...]:
    """Return every workload, set of knobs and phase as an application.

    Those without a valid measurement are left out. Raises UnknownNameError if there is no such
    objective; MeasurementError if GPUs of several products, or real and simulated ones, were
    measured.
    """
    aim = without_quality(objective)
    _require_one_product(measurements)
    groups = grouped_by(measurements, program_of)
    names = _names(list(groups))
    found = []
    for program, group in groups.items():
        counted, _ = comparable(group, point_label, DEFAULT)
        if counted:
            fit = fit_quantities(counted, point_label, aim)[aim]
            points = {point_label(m): m.configuration.point for m in counted}
            found.append(Application(name=names[program], fit=fit, points=points))
    return tuple(found)


def _require_one_product(measurements: Sequence[Measurement]) -> None:
    kinds = {board_words(m.device) for m in measurements}
    if len(kinds) > 1:
        raise MeasurementError(
            f"A policy is for GPUs of one product, but these are of {', '.join(sorted(kinds))}."
        )


def _names(programs: Sequence[ProgramKey]) -> Mapping[ProgramKey, str]:
    """Name programs by workload, phase, and the knobs that set those of one workload apart."""
    names = {}
    for workload, knobs, phase in programs:
        apart = varying([dict(known) for name, known, _ in programs if name == workload])
        named = [f"{knob}={value}" for knob, value in knobs if knob in apart]
        parts = [workload, "" if phase == workload else phase, *named]
        names[workload, knobs, phase] = " ".join(part for part in parts if part)
    return names


def point_words(point: OperatingPoint) -> str:
    """Write a point as short as labels of a plot are: ``"1095 MHz, 300 W"``."""
    return point_name(point, limit="W")
