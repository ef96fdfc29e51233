"""Boards that differ by one factor here and by another there.

A power cap holds each board at a clock of its own, so that boards differ in time at the driver's
default and not at a clock that all of them hold. Leakage and the offset of a sensor weigh more
where power is low. So along a line of clocks, or of limits, a board's factor is taken to change
evenly with its logarithm, and what is measured elsewhere tells nothing of it.

Factors are taken from measurements of one configuration on several boards or, where few share
boards, from how neighbours on the line differ once the line through the two next to each is taken
away (Yatchew, "An elementary estimator of the partial linear model", Economics Letters 57, 1997).
Where there is no line, how far a single factor goes shows only in configurations that share more
than one board (the interaction of the two-way classification; Searle, "Linear Models", Wiley 1971).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, sqrt

import numpy as np

from joulelab.core.additive import AdditiveFit, Array, fit_additive, tied
from joulelab.core.grouping import grouped_by
from joulelab.core.lines import Lines, neighbour_differences
from joulelab.core.statistics import student_quantile

_LEAST_SHARE = 0.25
"""Of configurations that have to show the interaction, besides the one that ties the boards."""
_LEAST_DOF, _LEAST_DOF_EVENLY = 3, 8
"""That have to be left where a board has one factor along lines, and one that changes evenly."""
_LEAST_PLACES = 3
"""Of a line, one of them between two neighbours."""
_PROBABILITY = 0.975
"""At which quantiles of Student's t are compared: the upper end of 95 % intervals."""
_ROUNDING = 1e-6
"""By which degrees of freedom that are whole may fall short, computed in floating point."""


def fit_on_boards(
    configurations: Sequence[str],
    boards: Sequence[str],
    logarithms: Sequence[float],
    stated_u: Sequence[float],
    lines: Lines = (),
) -> AdditiveFit:
    """Fit as :func:`fit_additive` does, where boards differ from configuration to configuration.

    Along ``lines`` boards have factors of their own. Elsewhere, and where one factor of a board has
    to do, repeats on one board are averaged before, as they would hide how boards differ from one
    configuration to another. Where no configurations share boards, nothing tells: the fit is open.
    Arguments and errors are those of :func:`fit_additive`.
    """
    fit = fit_additive(configurations, boards, logarithms, stated_u)
    if len(set(boards)) == 1:
        return fit
    rows = _Rows(
        configurations=tuple(configurations),
        boards=tuple(boards),
        y=np.array(logarithms),
        u=np.array(stated_u),
    )
    if (along := _along_lines(rows, lines)) is not None:
        return along
    averaged = rows.averaged().fit()
    if averaged.dof >= _LEAST_DOF or not rows.shares_boards():
        return replace(averaged, is_open=not averaged.dof)
    return fit


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Measurements: what each measured, on which board, what it found, how sure it says it is."""

    configurations: tuple[str, ...]
    boards: tuple[str, ...]
    y: Array
    u: Array

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.configurations))

    @property
    def cells(self) -> dict[tuple[str, str], list[int]]:
        """Places of the measurements of each configuration on each board."""
        places = range(len(self.configurations))
        return grouped_by(places, lambda i: (self.configurations[i], self.boards[i]))

    def fit(self) -> AdditiveFit:
        return fit_additive(self.configurations, self.boards, self.y.tolist(), self.u.tolist())

    def of(self, names: Collection[str], *, others: bool = False) -> "_Rows":
        """Return the measurements of some configurations, or of all others."""
        at = [i for i, each in enumerate(self.configurations) if (each in names) is not others]
        return _Rows(
            configurations=tuple(self.configurations[i] for i in at),
            boards=tuple(self.boards[i] for i in at),
            y=self.y[at],
            u=self.u[at],
        )

    def ties(self, boards: set[str]) -> bool:
        """Whether the measurements compare all ``boards`` by a factor of each."""
        return set(self.boards) == boards and all(
            tied(self.configurations, self.boards, self.configurations[0])
        )

    def shares_boards(self) -> bool:
        """Whether enough configurations share boards to show how these differ from one to next."""
        dof = len(self.cells) - len(self.names) - (len(set(self.boards)) - 1)
        return dof >= _LEAST_SHARE * (len(self.names) - 1)

    def averaged(self) -> "_Rows":
        """Return the mean of each configuration on each board, which hide no interaction."""
        cells = self.cells
        return _Rows(
            configurations=tuple(configuration for configuration, _ in cells),
            boards=tuple(board for _, board in cells),
            y=np.array([np.mean(self.y[at]) for at in cells.values()]),
            u=np.array([hypot(*self.u[at]) / len(at) for at in cells.values()]),
        )

    def means(self) -> Array:
        """Return what makes the mean of each configuration of measurements, ``(k, n)``."""
        of = _equal(self.names, self.configurations)
        return np.asarray(of / of.sum(axis=1, keepdims=True))

    def within(self) -> Array:
        """Return what makes differences from the mean of the same configuration, ``(n, n)``."""
        return np.eye(len(self.y)) - _equal(self.configurations, self.names) @ self.means()

    def neighbours(self, lines: Lines) -> Array:
        """Return what makes differences of means from their neighbours' line, ``(m, n)``."""
        return neighbour_differences(lines, self.names) @ self.means()

    def effects(self, place: Mapping[str, float] | None) -> Array:
        """Return columns of the factor of each board but the last, which is less all others.

        With the ``place`` of configurations further ones let factors change evenly along it.
        """
        on = _equal(self.boards, tuple(dict.fromkeys(self.boards)))
        factors: Array = on[:, :-1] - on[:, -1:]
        if place is None:
            return factors
        at = np.array([place[name] for name in self.configurations])
        return np.hstack([factors, factors * at[:, None]])


def _equal(one: Sequence[str], other: Sequence[str]) -> Array:
    return np.array([[a == b for b in other] for a in one], dtype=np.float64)


def _along_lines(rows: _Rows, lines: Lines) -> AdditiveFit | None:
    """Fit what lies on lines apart from the rest; ``None`` where boards cannot be."""
    lines = [line for line in lines if len(line) >= _LEAST_PLACES]
    place = {name: at for line in lines for name, at in line}
    on_lines, rest = rows.of(place), rows.of(place, others=True)
    boards = set(rows.boards)
    if set(on_lines.boards) != boards or (rest.boards and not rest.ties(boards)):
        return None
    is_smoothed = not on_lines.shares_boards()
    for is_even, least in ((True, _LEAST_DOF_EVENLY), (False, _LEAST_DOF)):
        seen = on_lines if is_even or is_smoothed else on_lines.averaged()
        contrasts = seen.neighbours(lines) if is_smoothed else seen.within()
        found = _without(seen.effects(place if is_even else None), contrasts, seen)
        if found is not None and found.dof >= least:
            found = replace(found, is_along_lines=True, is_smoothed=is_smoothed)
            return _beside(found, rest, rows.names)
    return None


def _without(effects: Array, contrasts: Array, rows: _Rows) -> AdditiveFit | None:
    """Fit ``effects`` of boards to contrasts, and take them out of the means of configurations.

    ``effects`` has shape ``(n, p)`` and ``contrasts`` ``(m, n)``; ``None`` where they cannot be.
    """
    seen = contrasts @ effects
    if len(seen) <= seen.shape[1] or np.linalg.matrix_rank(seen) < seen.shape[1]:
        return None
    solved = np.linalg.pinv(seen) @ contrasts
    left = contrasts - seen @ solved  # residuals are these times y; not independent of each other
    expected = float(np.sum(left**2))
    variance = float(np.sum((left @ rows.y) ** 2)) / expected
    means = rows.means()
    taken = means - means @ effects @ solved
    return AdditiveFit(
        configurations=rows.names,
        estimate=taken @ rows.y,
        scatter=variance * taken @ taken.T,
        stated=(taken * rows.u**2) @ taken.T,
        dof=int(expected**2 / np.sum((left @ left.T) ** 2) + _ROUNDING),  # Satterthwaite's
        residual_sd=sqrt(variance),
    )


def _beside(fit: AdditiveFit, rest: _Rows, names: tuple[str, ...]) -> AdditiveFit:
    """Return ``fit`` with the rest beside it, which scatters no less; all in order of ``names``."""
    if not rest.boards:
        return fit
    other, sd = rest.fit(), fit.residual_sd or 0.0
    if other.residual_sd is not None:
        fewer = student_quantile(_PROBABILITY, other.dof) / student_quantile(_PROBABILITY, fit.dof)
        sd = max(sd, other.residual_sd * fewer)  # as the interval takes the dof of both from fit
    own_scatter = replace(rest, u=np.full(len(rest.y), sd)).fit().stated
    known = fit.configurations + other.configurations
    order = [known.index(name) for name in names]
    own = slice(len(fit.configurations)), slice(len(fit.configurations), None)
    scatter, stated = np.zeros((2, len(known), len(known)))
    for at, one, another in (
        (own[0], fit.scatter, fit.stated),
        (own[1], own_scatter, other.stated),
    ):
        scatter[at, at], stated[at, at] = one, another
    return replace(
        fit,
        configurations=names,
        estimate=np.concatenate([fit.estimate, other.estimate])[order],
        scatter=scatter[np.ix_(order, order)],
        stated=stated[np.ix_(order, order)],
    )
