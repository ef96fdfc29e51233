"""How single measurements scatter, as the repeats of studies show it."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import sqrt

from joulelab.analysis import compared
from joulelab.core.additive import AdditiveFit
from joulelab.core.grouping import grouped_by
from joulelab.core.measurement import Measurement
from joulelab.errors import MeasurementError
from joulelab.objectives import ENERGY, TIME, Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatScatter:
    """By how much single measurements differ about what a fit says of them."""

    relative_sd: float
    dof: int | None  # degrees of freedom that it rests on; None where it was given


def repeat_scatters(measurements: Sequence[Measurement]) -> dict[str, RepeatScatter]:
    """Return the scatter of energy and of time, pooled over the fits that reports are made of.

    On several boards it holds how these differ from one configuration to another, which repeats on
    one board do not show. Raises MeasurementError if nothing was repeated so that it shows.
    """
    fits = [compared.fit_quantities(group, _label) for group in _groups(measurements)]
    return {of.name: _pooled(fits, of, len(measurements)) for of in (ENERGY, TIME)}


def _groups(measurements: Sequence[Measurement]) -> list[list[Measurement]]:
    """Split valid measurements by program; programs that ran at one point are taken together."""
    programs = grouped_by((m for m in measurements if m.valid), _program)
    is_grid = {key: len(set(map(_label, found))) == 1 for key, found in programs.items()}

    def kind(m: Measurement) -> Hashable:
        key = _program(m)
        return (m.study, m.device.name, m.configuration.workload, m.phase) if is_grid[key] else key

    groups = grouped_by((m for found in programs.values() for m in found), kind)
    counted = (compared.comparable(group, _label, "")[0] for group in groups.values())
    return [group for group in counted if group]


def _program(m: Measurement) -> Hashable:
    return m.study, m.device.name, compared.program_of(m)


def _label(m: Measurement) -> str:
    return m.configuration.config_hash


def _pooled(fits: Sequence[compared.Fits], of: Objective, num: int) -> RepeatScatter:
    known = [fit for each in fits if (fit := each[of]).dof and not fit.is_smoothed]
    dof = sum(fit.dof for fit in known)
    if not dof:
        raise MeasurementError(
            "Repeats of a configuration are required to know their scatter, on several boards of "
            f"several configurations, got {num} valid measurements without any; take --repeats 2 "
            "or more, or say --scatter."
        )
    return RepeatScatter(relative_sd=sqrt(sum(map(_squares, known)) / dof), dof=dof)


def _squares(fit: AdditiveFit) -> float:
    return fit.dof * (fit.residual_sd or 0.0) ** 2
